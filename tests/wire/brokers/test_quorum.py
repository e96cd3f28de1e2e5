"""The quorum of controllers, as KRaft's tools ask for it: on brokers, and on controllers."""

from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest

from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.core import (
    ApiVersionsRequest,
    DescribeClusterRequest,
    MetadataRequest,
)
from embedkafka.wire.protocol.messages.quorum import (
    AddRaftVoterRequest,
    ControllerListener,
    DescribeQuorumRequest,
    RemoveRaftVoterRequest,
    UnregisterBrokerRequest,
)
from embedkafka.wire.protocol.wire_types import ZERO_UUID
from tests.wire.clients import Cluster, create_topic
from tests.wire.one_partition import each_version
from tests.wire.quorum import (
    METADATA_TOPIC,
    controllers,
    quorum_request,
)
from tests.wire.raw_client import RawClient

BROKERS, CONTROLLERS = 1, 2
SOME_DIRECTORY = UUID(int=5)
ADDRESS = [ControllerListener(name="CONTROLLER", host="localhost", port=9)]


def describe_quorum(raw: RawClient, version: int | None = None) -> Any:
    answer = raw.call(quorum_request(), version)
    assert answer.error_code == ErrorCode.NONE
    (topic,) = answer.topics
    (partition,) = topic.partitions
    assert (topic.topic_name, partition.partition_index) == (METADATA_TOPIC, 0)
    assert partition.error_code == ErrorCode.NONE
    return partition


@pytest.fixture
def controller(cluster: Cluster) -> Iterator[RawClient]:
    """A connection to the controller listener of the one broker."""
    with cluster.connect() as raw:
        ((host, port),) = controllers(raw).values()
    with RawClient(host, port) as client:
        yield client


def cluster_id(raw: RawClient) -> str:
    found: str = raw.call(MetadataRequest(topics=[]), 8).cluster_id
    return found


def test_every_version_describes_leader_and_voters(three_brokers: Cluster) -> None:
    with three_brokers.connect() as raw:

        def check(version: int) -> None:
            partition = describe_quorum(raw, version)
            assert partition.leader_id in {1, 2, 3}
            assert partition.leader_epoch > 0
            assert partition.high_watermark > 0
            assert {voter.replica_id for voter in partition.current_voters} == {1, 2, 3}
            assert not partition.observers
            leader = next(
                voter
                for voter in partition.current_voters
                if voter.replica_id == partition.leader_id
            )
            assert leader.log_end_offset >= partition.high_watermark
            assert (leader.last_fetch_timestamp > 0) == (version >= 1)

        each_version(raw, DescribeQuorumRequest, check)
        assert set(controllers(raw)) == {1, 2, 3}
        assert not set(controllers(raw).values()) & {
            tuple(address.rsplit(":", 1)) for address in three_brokers.bootstrap_servers.split(",")
        }


def test_the_metadata_log_grows_with_every_topic(
    cluster: Cluster, raw: RawClient, unique: Callable[[str], str]
) -> None:
    before = describe_quorum(raw).high_watermark
    create_topic(cluster, unique("one-more"))
    assert describe_quorum(raw).high_watermark > before


@pytest.mark.parametrize("at", ["broker", "controller"])
def test_voters_cannot_be_added_or_removed(raw: RawClient, controller: RawClient, at: str) -> None:
    client = raw if at == "broker" else controller
    own = cluster_id(raw)
    for mine, error, said in (
        (own, ErrorCode.UNSUPPORTED_VERSION, "because the kraft.version feature is 0"),
        (None, ErrorCode.UNSUPPORTED_VERSION, "because the kraft.version feature is 0"),
        ("other", ErrorCode.INCONSISTENT_CLUSTER_ID, 'The given id "other" doesn\'t match'),
    ):
        for request in (
            AddRaftVoterRequest(
                cluster_id=mine,
                timeout_ms=1000,
                voter_id=9,
                voter_directory_id=SOME_DIRECTORY,
                listeners=ADDRESS,
            ),
            RemoveRaftVoterRequest(cluster_id=mine, voter_id=1, voter_directory_id=SOME_DIRECTORY),
        ):
            answer = client.call(request)
            assert (answer.error_code, said in answer.error_message) == (error, True)


def test_a_voter_needs_an_id_a_directory_and_an_address(raw: RawClient) -> None:
    own = cluster_id(raw)
    for voter, directory, listeners in (
        (-1, SOME_DIRECTORY, ADDRESS),
        (9, ZERO_UUID, ADDRESS),
        (9, SOME_DIRECTORY, []),
    ):
        request = AddRaftVoterRequest(
            cluster_id=own,
            timeout_ms=1000,
            voter_id=voter,
            voter_directory_id=directory,
            listeners=listeners,
        )
        answer = raw.call(request)
        assert answer.error_code == ErrorCode.INVALID_REQUEST
        assert "Add voter request didn't include" in answer.error_message


def test_a_broker_that_never_was_cannot_be_unregistered(
    raw: RawClient, controller: RawClient
) -> None:
    for client in (raw, controller):
        answer = client.call(UnregisterBrokerRequest(broker_id=99))
        assert answer.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
        assert answer.error_message == "Broker ID 99 is not currently registered"


def test_controllers_describe_controllers_and_brokers_brokers(three_brokers: Cluster) -> None:
    with three_brokers.connect() as raw:
        at_controllers, own = controllers(raw), cluster_id(raw)
        leader = describe_quorum(raw).leader_id
    with RawClient(*at_controllers[leader]) as controller:
        for version in (1, 2):
            answer = controller.call(
                DescribeClusterRequest(
                    include_cluster_authorized_operations=False, endpoint_type=CONTROLLERS
                ),
                version,
            )
            assert (answer.error_code, answer.endpoint_type) == (ErrorCode.NONE, CONTROLLERS)
            assert (answer.cluster_id, answer.controller_id) == (own, leader)
            assert {node.broker_id: (node.host, node.port) for node in answer.brokers} == (
                at_controllers
            )
        wrong = controller.call(
            DescribeClusterRequest(
                include_cluster_authorized_operations=False, endpoint_type=BROKERS
            )
        )
        assert wrong.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE
        assert "sent to an endpoint of type CONTROLLER" in wrong.error_message


def test_controllers_list_their_own_apis(raw: RawClient, controller: RawClient) -> None:
    request = ApiVersionsRequest(client_software_name="raw", client_software_version="1.0")
    offered = {api.api_key for api in controller.call(request, 4).api_keys}
    assert offered >= {
        ApiKey.API_VERSIONS,
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.UPDATE_FEATURES,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
    }
    assert not offered & {ApiKey.PRODUCE, ApiKey.METADATA, ApiKey.FIND_COORDINATOR}


def test_the_metadata_version_is_a_feature_with_a_range(
    raw: RawClient, controller: RawClient
) -> None:
    request = ApiVersionsRequest(client_software_name="raw", client_software_version="1.0")
    for client in (raw, controller):
        for version in (3, 4):
            answer = client.call(request, version)
            ranges = {
                feature.name: (feature.min_version, feature.max_version)
                for feature in answer.supported_features
            }
            lowest, highest = ranges["metadata.version"]
            levels = {
                feature.name: feature.max_version_level for feature in answer.finalized_features
            }
            assert 0 < lowest < levels["metadata.version"] <= highest
            # Only version 4 can carry a feature whose lowest level is 0.
            assert ("kraft.version" in ranges) == (version == 4)
            assert "kraft.version" not in levels
