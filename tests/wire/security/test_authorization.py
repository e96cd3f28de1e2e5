"""What a client without rights gets, API by API, and what is left out of its answers.

A test grants the anonymous client exactly the rights of one API. The same bodies run on Apache
Kafka, with its StandardAuthorizer.
"""

import itertools
import uuid
from collections.abc import Iterator
from functools import partial
from typing import Any, Final, NamedTuple

import pytest

from embedkafka.protocol.api_keys import ApiKey
from embedkafka.protocol.errors import ErrorCode
from embedkafka.protocol.message import schema_of
from embedkafka.protocol.messages import configs as c
from embedkafka.protocol.messages import consumer_groups as cg
from embedkafka.protocol.messages import core, groups, quorum, security, topics
from embedkafka.protocol.messages import transactions as t
from embedkafka.protocol.wire_types import ZERO_UUID
from embedkafka.runtime.addresses import parse_address
from embedkafka.security.acl.acls import Acl, PatternType
from embedkafka.security.acl.operations import AclOperation, ResourceType
from embedkafka.server.api_table import SERVED, load_api
from embedkafka.server.authorization.checks import Checks
from embedkafka.server.authorization.needs import permissions
from tests.wire.clients import eventually
from tests.wire.conftest import SHARED_CONFIG
from tests.wire.one_partition import batch
from tests.wire.raw_client import RawClient
from tests.wire.secured import ANYONE, EVERYTHING, Secured, creation, secured_cluster

TOPIC, HIDDEN, GROUP, TXN = "visible", "hidden", "a-group", "a-transaction"
NO_TOPIC = ErrorCode.TOPIC_AUTHORIZATION_FAILED
NO_GROUP = ErrorCode.GROUP_AUTHORIZATION_FAILED
NO_CLUSTER = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
NO_TXN = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
REFUSALS: Final = frozenset({NO_TOPIC, NO_GROUP, NO_CLUSTER, NO_TXN})

_serial = itertools.count(1)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "secured" in metafunc.fixturenames:
        oracle = metafunc.config.getoption("--oracle", default=False)
        kinds = ["embedded", "apache"] if oracle else ["embedded"]
        metafunc.parametrize("secured", kinds, indirect=True, scope="module")


@pytest.fixture(scope="module", autouse=True)
def only_what_a_row_lists_is_asked() -> Iterator[None]:
    """Makes a request fail that is asked for more than the documentation says."""
    ask = Checks.may

    def may(
        self: Checks, operation: AclOperation, kind: ResourceType, name: str, *, quiet: bool = False
    ) -> bool:
        needs = load_api(self.context.api_key).needs
        listed = {(op, resource) for need in needs for op, resource, _ in permissions(need)}
        assert (operation, kind) in listed, f"{operation!r} on {kind!r} is not in the table"
        return ask(self, operation, kind, name, quiet=quiet)

    Checks.may = may
    yield
    Checks.may = ask


@pytest.fixture(scope="module")
def secured(request: pytest.FixtureRequest) -> Iterator[Secured]:
    """Two topics with a record each, a group with an offset in both, an open transaction."""
    with secured_cluster(request.param, {**SHARED_CONFIG, "auto.create.topics.enable": True}) as up:
        up.grant(*EVERYTHING)
        with up.connect() as client:
            _prepare(client)
        yield up
        up.grant(*EVERYTHING)  # the brokers of a plaintext cluster are anonymous too


@pytest.fixture
def raw(secured: Secured) -> Iterator[RawClient]:
    with secured.connect() as client:
        yield client


def _prepare(raw: RawClient) -> None:
    eventually(raw.gives_producer_ids, "the broker gives producer ids")
    for name in (TOPIC, HIDDEN):
        wanted = topics.CreateTopicsRequest.Topic(
            name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[]
        )
        raw.call(topics.CreateTopicsRequest(topics=[wanted], timeout_ms=30_000))
        eventually(partial(raw.knows_leaders, name, 1), f"{name} is led")
        eventually(partial(_takes_records, raw, name), f"{name} takes records")
    for kind, key in ((0, GROUP), (1, TXN)):
        eventually(partial(raw.knows_coordinator, key, kind=kind), key)
    eventually(lambda: codes(raw.call(commit(TOPIC, HIDDEN), 8)) == set(), "offsets are committed")
    eventually(lambda: _begun(raw), "a transaction is open")


def _takes_records(raw: RawClient, topic: str) -> bool:
    return not codes(raw.call(produced(topic), 9))


def _begun(raw: RawClient) -> bool:
    answer = raw.call(
        t.InitProducerIdRequest(transactional_id=TXN, transaction_timeout_ms=60_000), 4
    )
    if answer.error_code:
        return False
    for name in (TOPIC, HIDDEN):
        added = raw.call(in_transaction(name, answer.producer_id, answer.producer_epoch), 3)
        if codes(added):
            return False
    return True


def codes(message: object) -> set[int]:
    """The errors in a response."""
    return set(_codes(message)) - {ErrorCode.NONE}


def _codes(value: Any) -> Iterator[int]:  # Any: a message, or a field of one
    if isinstance(value, list | tuple):
        for item in value:
            yield from _codes(item)
    elif hasattr(value, "__slots__") and not isinstance(value, uuid.UUID):
        for field in schema_of(type(value)).fields:
            inner = getattr(value, field.name)
            if field.name.endswith("error_code"):
                yield inner
            else:
                yield from _codes(inner)


def produced(topic: str, *, acks: int = 1) -> core.ProduceRequest:
    _Topic = core.ProduceRequest.Topic
    partition = _Topic.Partition(index=0, records=memoryview(bytearray(batch(b"x"))))
    return core.ProduceRequest(
        acks=acks, timeout_ms=5_000, topic_data=[_Topic(name=topic, partition_data=[partition])]
    )


def fetched(topic: str, **session: Any) -> core.FetchRequest:
    _Topic = core.FetchRequest.Topic
    partition = _Topic.Partition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    return core.FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        topics=[_Topic(topic=topic, partitions=[partition])] if topic else [],
        **session,
    )


def commit(*names: str) -> groups.OffsetCommitRequest:
    _Topic = groups.OffsetCommitRequest.Topic
    one = _Topic.Partition(partition_index=0, committed_offset=1, committed_metadata=None)
    return groups.OffsetCommitRequest(
        group_id=GROUP, topics=[_Topic(name=name, partitions=[one]) for name in names]
    )


def in_transaction(name: str, producer_id: int, epoch: int) -> t.AddPartitionsToTxnRequest:
    return t.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=TXN,
        v3_and_below_producer_id=producer_id,
        v3_and_below_producer_epoch=epoch,
        v3_and_below_topics=[
            t.AddPartitionsToTxnRequest.Transaction.Topic(name=name, partitions=[0])
        ],
    )


class Probe(NamedTuple):
    """A request, the rights it needs, and the errors of a client without them."""

    request: object
    version: int
    acls: tuple[Acl, ...]
    refused: frozenset[int] | set[int]


def allow(operation: str, **resource: Any) -> Acl:  # Any: as `Acl.allow` takes it
    return Acl.allow(ANYONE, operation, **resource)


_OF_TXN: dict[str, Any] = {"transactional_id": TXN, "producer_id": 999_999, "producer_epoch": 0}
_TO_MOVE = topics.AlterReplicaLogDirsRequest.LogDir.Topic(name=TOPIC, partitions=[0])
_CONFIG = c.IncrementalAlterConfigsRequest.Resource
_VOTER: dict[str, Any] = {"cluster_id": None, "voter_directory_id": uuid.UUID(int=1)}
_SCRAM = c.AlterUserScramCredentialsRequest.Deletion(name="nobody", mechanism=1)
_QUOTA = c.AlterClientQuotasRequest.Entry
_MARKER = t.WriteTxnMarkersRequest.Marker
_ANY_ACL: dict[str, Any] = {
    "resource_type_filter": 1,
    "resource_name_filter": "no such",
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}

PROBES: Final = {
    ApiKey.PRODUCE: Probe(produced(TOPIC), 9, (allow("WRITE", topic=TOPIC),), {NO_TOPIC}),
    ApiKey.FETCH: Probe(fetched(TOPIC), 11, (allow("READ", topic=TOPIC),), {NO_TOPIC}),
    ApiKey.LIST_OFFSETS: Probe(
        core.ListOffsetsRequest(
            replica_id=-1,
            topics=[
                core.ListOffsetsRequest.Topic(
                    name=TOPIC,
                    partitions=[
                        core.ListOffsetsRequest.Topic.Partition(partition_index=0, timestamp=-1)
                    ],
                )
            ],
        ),
        7,
        (allow("DESCRIBE", topic=TOPIC),),
        {NO_TOPIC},
    ),
    ApiKey.METADATA: Probe(
        core.MetadataRequest(
            topics=[core.MetadataRequest.Topic(name=TOPIC)], allow_auto_topic_creation=False
        ),
        9,
        (allow("DESCRIBE", topic=TOPIC),),
        {NO_TOPIC},
    ),
    ApiKey.OFFSET_COMMIT: Probe(
        commit(TOPIC), 8, (allow("READ", group=GROUP), allow("READ", topic=TOPIC)), {NO_GROUP}
    ),
    ApiKey.OFFSET_FETCH: Probe(
        groups.OffsetFetchRequest(
            groups=[groups.OffsetFetchRequest.Group(group_id=GROUP, topics=None)]
        ),
        8,
        (allow("DESCRIBE", group=GROUP),),
        {NO_GROUP},
    ),
    ApiKey.FIND_COORDINATOR: Probe(
        groups.FindCoordinatorRequest(coordinator_keys=[GROUP]),
        4,
        (allow("DESCRIBE", group=GROUP),),
        {NO_GROUP},
    ),
    ApiKey.JOIN_GROUP: Probe(
        groups.JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=10_000,
            member_id="nobody",
            protocol_type="consumer",
            protocols=[groups.JoinGroupRequest.Protocol(name="range", metadata=b"")],
        ),
        5,
        (allow("READ", group=GROUP),),
        {NO_GROUP},
    ),
    ApiKey.HEARTBEAT: Probe(
        groups.HeartbeatRequest(group_id=GROUP, generation_id=1, member_id="nobody"),
        3,
        (allow("READ", group=GROUP),),
        {NO_GROUP},
    ),
    ApiKey.LEAVE_GROUP: Probe(
        groups.LeaveGroupRequest(
            group_id=GROUP, members=[groups.LeaveGroupRequest.Member(member_id="nobody")]
        ),
        4,
        (allow("READ", group=GROUP),),
        {NO_GROUP},
    ),
    ApiKey.SYNC_GROUP: Probe(
        groups.SyncGroupRequest(
            group_id=GROUP, generation_id=1, member_id="nobody", assignments=[]
        ),
        3,
        (allow("READ", group=GROUP),),
        {NO_GROUP},
    ),
    ApiKey.DESCRIBE_GROUPS: Probe(
        groups.DescribeGroupsRequest(groups=[GROUP]),
        5,
        (allow("DESCRIBE", group=GROUP),),
        {NO_GROUP},
    ),
    ApiKey.DELETE_GROUPS: Probe(
        groups.DeleteGroupsRequest(groups_names=["no-such-group"]),
        2,
        (allow("DELETE", group="no-such-group"),),
        {NO_GROUP},
    ),
    ApiKey.OFFSET_DELETE: Probe(
        groups.OffsetDeleteRequest(
            group_id="no-such-group",
            topics=[
                groups.OffsetDeleteRequest.Topic(
                    name=TOPIC,
                    partitions=[groups.OffsetDeleteRequest.Topic.Partition(partition_index=0)],
                )
            ],
        ),
        0,
        (allow("DELETE", group="no-such-group"), allow("READ", topic=TOPIC)),
        {NO_GROUP},
    ),
    ApiKey.CREATE_TOPICS: Probe(
        topics.CreateTopicsRequest(
            topics=[
                topics.CreateTopicsRequest.Topic(
                    name=TOPIC, num_partitions=1, replication_factor=1, assignments=[], configs=[]
                )
            ],
        ),
        7,
        (allow("CREATE", topic=TOPIC),),
        {NO_TOPIC},
    ),
    ApiKey.DELETE_TOPICS: Probe(
        topics.DeleteTopicsRequest(topic_names=["no-such-topic"], timeout_ms=1000),
        5,
        (allow("DELETE", topic="no-such-topic"),),
        {NO_TOPIC},
    ),
    ApiKey.CREATE_PARTITIONS: Probe(
        topics.CreatePartitionsRequest(
            topics=[topics.CreatePartitionsRequest.Topic(name=TOPIC, count=1, assignments=None)],
            timeout_ms=1000,
            validate_only=True,
        ),
        3,
        (allow("ALTER", topic=TOPIC),),
        {NO_TOPIC},
    ),
    ApiKey.DELETE_RECORDS: Probe(
        topics.DeleteRecordsRequest(
            topics=[
                topics.DeleteRecordsRequest.Topic(
                    name=TOPIC,
                    partitions=[
                        topics.DeleteRecordsRequest.Topic.Partition(partition_index=0, offset=0)
                    ],
                )
            ],
            timeout_ms=1000,
        ),
        2,
        (allow("DELETE", topic=TOPIC),),
        {NO_TOPIC},
    ),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Probe(
        core.OffsetForLeaderEpochRequest(
            replica_id=-1,
            topics=[
                core.OffsetForLeaderEpochRequest.Topic(
                    topic=TOPIC,
                    partitions=[
                        core.OffsetForLeaderEpochRequest.Topic.Partition(
                            partition=0, leader_epoch=0
                        )
                    ],
                )
            ],
        ),
        4,
        (allow("DESCRIBE", topic=TOPIC),),
        {NO_TOPIC},
    ),
    ApiKey.INIT_PRODUCER_ID: Probe(
        t.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000),
        4,
        (allow("WRITE", topic="any", prefixed=True),),
        {NO_CLUSTER},
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: Probe(
        in_transaction(TOPIC, 999_999, 0),
        3,
        (allow("WRITE", transactional_id=TXN), allow("WRITE", topic=TOPIC)),
        {NO_TXN},
    ),
    ApiKey.ADD_OFFSETS_TO_TXN: Probe(
        t.AddOffsetsToTxnRequest(group_id=GROUP, **_OF_TXN),
        3,
        (allow("WRITE", transactional_id=TXN), allow("READ", group=GROUP)),
        {NO_TXN},
    ),
    ApiKey.END_TXN: Probe(
        t.EndTxnRequest(committed=True, **_OF_TXN),
        3,
        (allow("WRITE", transactional_id=TXN),),
        {NO_TXN},
    ),
    ApiKey.WRITE_TXN_MARKERS: Probe(
        t.WriteTxnMarkersRequest(
            markers=[
                _MARKER(
                    producer_id=1,
                    producer_epoch=0,
                    transaction_result=False,
                    topics=[_MARKER.Topic(name="no-such-topic", partition_indexes=[0])],
                    coordinator_epoch=0,
                )
            ]
        ),
        1,
        (allow("ALTER", cluster=True),),
        {NO_CLUSTER},
    ),
    ApiKey.TXN_OFFSET_COMMIT: Probe(
        t.TxnOffsetCommitRequest(
            group_id=GROUP,
            topics=[
                t.TxnOffsetCommitRequest.Topic(
                    name=TOPIC,
                    partitions=[
                        t.TxnOffsetCommitRequest.Topic.Partition(
                            partition_index=0, committed_offset=1, committed_metadata=None
                        )
                    ],
                )
            ],
            **_OF_TXN,
        ),
        3,
        (
            allow("WRITE", transactional_id=TXN),
            allow("READ", group=GROUP),
            allow("READ", topic=TOPIC),
        ),
        {NO_TXN},
    ),
    ApiKey.DESCRIBE_CONFIGS: Probe(
        c.DescribeConfigsRequest(
            resources=[
                c.DescribeConfigsRequest.Resource(
                    resource_type=kind, resource_name=name, configuration_keys=["cleanup.policy"]
                )
                for kind, name in ((2, TOPIC), (4, "1"), (32, GROUP))
            ]
        ),
        4,
        (
            allow("DESCRIBE_CONFIGS", topic=TOPIC),
            allow("DESCRIBE_CONFIGS", cluster=True),
            allow("DESCRIBE_CONFIGS", group=GROUP),
        ),
        {NO_TOPIC, NO_CLUSTER, NO_GROUP},
    ),
    ApiKey.ALTER_CONFIGS: Probe(
        c.AlterConfigsRequest(
            resources=[
                c.AlterConfigsRequest.Resource(resource_type=kind, resource_name=name, configs=[])
                for kind, name in ((2, TOPIC), (4, ""))
            ],
            validate_only=True,
        ),
        2,
        (allow("ALTER_CONFIGS", topic=TOPIC), allow("ALTER_CONFIGS", cluster=True)),
        {NO_TOPIC, NO_CLUSTER},
    ),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Probe(
        c.IncrementalAlterConfigsRequest(
            resources=[
                _CONFIG(resource_type=kind, resource_name=name, configs=[])
                for kind, name in ((2, TOPIC), (4, ""), (32, GROUP))
            ],
            validate_only=True,
        ),
        1,
        (
            allow("ALTER_CONFIGS", topic=TOPIC),
            allow("ALTER_CONFIGS", cluster=True),
            allow("ALTER_CONFIGS", group=GROUP),
        ),
        {NO_TOPIC, NO_CLUSTER, NO_GROUP},
    ),
    ApiKey.LIST_CONFIG_RESOURCES: Probe(
        c.ListConfigResourcesRequest(),
        1,
        (allow("DESCRIBE_CONFIGS", cluster=True),),
        {NO_CLUSTER},
    ),
    ApiKey.ELECT_LEADERS: Probe(
        topics.ElectLeadersRequest(
            topic_partitions=[topics.ElectLeadersRequest.Topic(topic=TOPIC, partitions=[0])]
        ),
        2,
        (allow("ALTER", cluster=True),),
        {NO_CLUSTER},
    ),
    ApiKey.ALTER_REPLICA_LOG_DIRS: Probe(
        topics.AlterReplicaLogDirsRequest(
            dirs=[topics.AlterReplicaLogDirsRequest.LogDir(path="/no/such", topics=[_TO_MOVE])]
        ),
        2,
        (allow("ALTER", cluster=True),),
        {NO_CLUSTER},
    ),
    ApiKey.DESCRIBE_LOG_DIRS: Probe(
        topics.DescribeLogDirsRequest(topics=None),
        4,
        (allow("DESCRIBE", cluster=True),),
        {NO_CLUSTER},
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Probe(
        topics.AlterPartitionReassignmentsRequest(topics=[]),
        0,
        (allow("ALTER", cluster=True),),
        {NO_CLUSTER},
    ),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: Probe(
        topics.ListPartitionReassignmentsRequest(),
        0,
        (allow("DESCRIBE", cluster=True),),
        {NO_CLUSTER},
    ),
    ApiKey.DESCRIBE_PRODUCERS: Probe(
        t.DescribeProducersRequest(
            topics=[t.DescribeProducersRequest.Topic(name=TOPIC, partition_indexes=[0])]
        ),
        0,
        (allow("READ", topic=TOPIC),),
        {NO_TOPIC},
    ),
    ApiKey.DESCRIBE_TRANSACTIONS: Probe(
        t.DescribeTransactionsRequest(transactional_ids=[TXN]),
        0,
        (allow("DESCRIBE", transactional_id=TXN),),
        {NO_TXN},
    ),
    ApiKey.DESCRIBE_QUORUM: Probe(
        quorum.DescribeQuorumRequest(topics=[]),
        0,
        (allow("DESCRIBE", cluster=True),),
        {NO_CLUSTER},
    ),
    ApiKey.UNREGISTER_BROKER: Probe(
        quorum.UnregisterBrokerRequest(broker_id=99),
        0,
        (allow("ALTER", cluster=True),),
        {NO_CLUSTER},
    ),
    ApiKey.ADD_RAFT_VOTER: Probe(
        quorum.AddRaftVoterRequest(voter_id=9, listeners=[], timeout_ms=1000, **_VOTER),
        0,
        (allow("ALTER", cluster=True),),
        {NO_CLUSTER},
    ),
    ApiKey.REMOVE_RAFT_VOTER: Probe(
        quorum.RemoveRaftVoterRequest(voter_id=9, **_VOTER),
        0,
        (allow("ALTER", cluster=True),),
        {NO_CLUSTER},
    ),
    ApiKey.UPDATE_FEATURES: Probe(
        c.UpdateFeaturesRequest(feature_updates=[], validate_only=True),
        1,
        (allow("ALTER", cluster=True),),
        {NO_CLUSTER},
    ),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: Probe(
        core.DescribeTopicPartitionsRequest(
            topics=[core.DescribeTopicPartitionsRequest.Topic(name=TOPIC)]
        ),
        0,
        (allow("DESCRIBE", topic=TOPIC),),
        {NO_TOPIC},
    ),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: Probe(
        cg.ConsumerGroupHeartbeatRequest(
            group_id="another-group", member_id="nobody", member_epoch=7
        ),
        0,
        (allow("READ", group="another-group"),),
        {NO_GROUP},
    ),
    ApiKey.CONSUMER_GROUP_DESCRIBE: Probe(
        cg.ConsumerGroupDescribeRequest(
            group_ids=["another-group"], include_authorized_operations=False
        ),
        0,
        (allow("DESCRIBE", group="another-group"),),
        {NO_GROUP},
    ),
    ApiKey.DESCRIBE_ACLS: Probe(
        security.DescribeAclsRequest(**_ANY_ACL),
        2,
        (allow("DESCRIBE", cluster=True),),
        {NO_CLUSTER},
    ),
    ApiKey.CREATE_ACLS: Probe(
        security.CreateAclsRequest(creations=[creation(allow("ALTER", cluster=True))]),
        2,
        (allow("ALTER", cluster=True),),
        {NO_CLUSTER},
    ),
    ApiKey.DELETE_ACLS: Probe(
        security.DeleteAclsRequest(filters=[security.DeleteAclsRequest.Filter(**_ANY_ACL)]),
        2,
        (allow("ALTER", cluster=True),),
        {NO_CLUSTER},
    ),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: Probe(
        c.DescribeClientQuotasRequest(components=[], strict=False),
        1,
        (allow("DESCRIBE_CONFIGS", cluster=True),),
        {NO_CLUSTER},
    ),
    ApiKey.ALTER_CLIENT_QUOTAS: Probe(
        c.AlterClientQuotasRequest(
            entries=[
                _QUOTA(
                    entity=[_QUOTA.Entity(entity_type="user", entity_name="nobody")],
                    ops=[_QUOTA.Op(key="producer_byte_rate", value=1e6, remove=False)],
                )
            ],
            validate_only=True,
        ),
        1,
        (allow("ALTER_CONFIGS", cluster=True),),
        {NO_CLUSTER},
    ),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: Probe(
        c.DescribeUserScramCredentialsRequest(users=[]),
        0,
        (allow("DESCRIBE", cluster=True),),
        {NO_CLUSTER},
    ),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Probe(
        c.AlterUserScramCredentialsRequest(deletions=[_SCRAM], upsertions=[]),
        0,
        (allow("ALTER", cluster=True),),
        {NO_CLUSTER},
    ),
}

ELSEWHERE: Final = {
    ApiKey.LIST_GROUPS: "test_only_visible_groups_are_listed",
    ApiKey.LIST_TRANSACTIONS: "test_only_visible_transactions_are_listed",
    ApiKey.DESCRIBE_CLUSTER: "test_authorized_operations_are_those_that_are_allowed",
    ApiKey.CREATE_DELEGATION_TOKEN: "tokens need a login",
    ApiKey.RENEW_DELEGATION_TOKEN: "tokens need a login",
    ApiKey.EXPIRE_DELEGATION_TOKEN: "tokens need a login",
    ApiKey.DESCRIBE_DELEGATION_TOKEN: "tokens need a login",
}


def test_every_api_that_is_not_free_is_probed() -> None:
    guarded = {api for api in SERVED if load_api(api).needs}
    of_brokers = {api for api in guarded if not SERVED[api].for_clients}
    assert set(PROBES) | of_brokers | (set(ELSEWHERE) & guarded) == guarded


@pytest.mark.parametrize("api", PROBES, ids=lambda api: api.name)
def test_an_api_is_refused_without_its_rights(
    secured: Secured, raw: RawClient, api: ApiKey
) -> None:
    probe = PROBES[api]
    secured.grant()
    assert codes(raw.call(probe.request, probe.version)) == probe.refused
    secured.grant(*probe.acls)
    assert not codes(raw.call(probe.request, probe.version)) & REFUSALS


@pytest.mark.parametrize(
    ("acls", "api", "expected"),
    [
        ([allow("READ", group=GROUP)], ApiKey.OFFSET_COMMIT, {NO_TOPIC}),
        ([allow("DELETE", group="no-such-group")], ApiKey.OFFSET_DELETE, None),
        ([allow("WRITE", transactional_id=TXN)], ApiKey.ADD_PARTITIONS_TO_TXN, {NO_TOPIC}),
        ([allow("WRITE", transactional_id=TXN)], ApiKey.ADD_OFFSETS_TO_TXN, {NO_GROUP}),
        ([allow("WRITE", transactional_id=TXN)], ApiKey.TXN_OFFSET_COMMIT, {NO_GROUP}),
        (
            [allow("WRITE", transactional_id=TXN), allow("READ", group=GROUP)],
            ApiKey.TXN_OFFSET_COMMIT,
            {NO_TOPIC},
        ),
        ([allow("IDEMPOTENT_WRITE", cluster=True)], ApiKey.INIT_PRODUCER_ID, set()),
        ([allow("CREATE", cluster=True)], ApiKey.CREATE_TOPICS, None),
        ([allow("DESCRIBE", cluster=True)], ApiKey.WRITE_TXN_MARKERS, {NO_CLUSTER}),
        ([allow("CLUSTER_ACTION", cluster=True)], ApiKey.WRITE_TXN_MARKERS, None),
        ([allow("CLUSTER_ACTION", cluster=True)], ApiKey.OFFSET_FOR_LEADER_EPOCH, set()),
    ],
)
def test_half_of_the_rights(
    secured: Secured, raw: RawClient, acls: list[Acl], api: ApiKey, expected: set[int] | None
) -> None:
    """None: anything but a refusal."""
    probe = PROBES[api]
    secured.grant(*acls)
    answered = codes(raw.call(probe.request, probe.version))
    if expected is None:
        assert not answered & (REFUSALS - {NO_TOPIC})
    else:
        assert answered == expected


def names(secured: Secured, raw: RawClient) -> set[str | None]:
    return {topic.name for topic in raw.call(core.MetadataRequest(topics=None), 9).topics}


def test_only_visible_topics_are_listed(secured: Secured, raw: RawClient) -> None:
    secured.grant(allow("READ", topic="vis", prefixed=True))
    assert names(secured, raw) == {TOPIC}
    listed = raw.call(core.DescribeTopicPartitionsRequest(topics=[]), 0)
    assert {topic.name for topic in listed.topics} == {TOPIC}
    secured.grant()
    assert names(secured, raw) == set()
    assert raw.call(core.DescribeTopicPartitionsRequest(topics=[]), 0).topics == []


def test_a_hidden_topic_keeps_its_id_and_an_id_its_name(secured: Secured, raw: RawClient) -> None:
    secured.grant(*EVERYTHING)
    asked = [core.MetadataRequest.Topic(name=HIDDEN)]
    (known,) = raw.call(core.MetadataRequest(topics=asked), 12).topics
    secured.grant()
    (by_name,) = raw.call(core.MetadataRequest(topics=asked), 12).topics
    assert (by_name.error_code, by_name.topic_id) == (NO_TOPIC, ZERO_UUID)
    asked = [core.MetadataRequest.Topic(name=None, topic_id=known.topic_id)]
    (by_id,) = raw.call(core.MetadataRequest(topics=asked), 12).topics
    assert (by_id.error_code, by_id.name) == (NO_TOPIC, None)
    assert by_id.topic_id == known.topic_id
    unknown = uuid.uuid4()
    asked = [core.MetadataRequest.Topic(name=None, topic_id=unknown)]
    (by_id,) = raw.call(core.MetadataRequest(topics=asked), 12).topics
    assert by_id.error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_a_topic_is_created_on_demand_only_for_those_who_may(
    secured: Secured, raw: RawClient
) -> None:
    name = f"on-demand-{next(_serial)}"
    asked = core.MetadataRequest(topics=[core.MetadataRequest.Topic(name=name)])
    secured.grant(allow("DESCRIBE", topic=name))
    assert codes(raw.call(asked, 9)) == {NO_TOPIC}
    for right in (allow("CREATE", topic=name), allow("CREATE", cluster=True)):
        secured.grant(allow("DESCRIBE", topic=name), right)
        assert NO_TOPIC not in codes(raw.call(asked, 9))
    eventually(lambda: raw.knows_leaders(name, 1), "the topic is created")


def test_the_settings_of_a_new_topic_are_shown_to_those_who_may_describe_them(
    secured: Secured, raw: RawClient
) -> None:
    def create(*more: Acl) -> topics.CreateTopicsResponse.Topic:
        name = f"new-{next(_serial)}"
        secured.grant(allow("CREATE", topic=name), *more)
        wanted = topics.CreateTopicsRequest.Topic(
            name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[]
        )
        (created,) = raw.call(topics.CreateTopicsRequest(topics=[wanted]), 7).topics
        assert created.error_code == ErrorCode.NONE
        return created

    hidden = create()
    assert (hidden.topic_config_error_code, hidden.configs) == (NO_TOPIC, [])
    assert (hidden.num_partitions, hidden.replication_factor) == (-1, -1)
    shown = create(allow("DESCRIBE_CONFIGS", topic="new-", prefixed=True))
    assert (shown.topic_config_error_code, shown.num_partitions) == (0, 1)
    assert shown.configs


def test_a_deletion_tells_only_those_who_may_describe_what_does_not_exist(
    secured: Secured, raw: RawClient
) -> None:
    secured.grant(*EVERYTHING)
    asked = [core.MetadataRequest.Topic(name=HIDDEN)]
    (known,) = raw.call(core.MetadataRequest(topics=asked), 12).topics

    def delete(name: str | None, topic_id: uuid.UUID = ZERO_UUID) -> tuple[int, str | None]:
        wanted = topics.DeleteTopicsRequest.Topic(name=name, topic_id=topic_id)
        request = topics.DeleteTopicsRequest(topics=[wanted], timeout_ms=5000)
        (answer,) = raw.call(request, 6).responses
        return answer.error_code, answer.name

    secured.grant()
    assert delete("no-such-topic") == (NO_TOPIC, "no-such-topic")
    assert delete(None, known.topic_id) == (NO_TOPIC, None)
    secured.grant(allow("DESCRIBE", topic="*"))
    assert delete("no-such-topic")[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert delete(HIDDEN) == (NO_TOPIC, HIDDEN)
    assert delete(None, known.topic_id) == (NO_TOPIC, HIDDEN)


def test_a_regular_expression_finds_visible_topics_only(secured: Secured, raw: RawClient) -> None:
    group, member = f"by-pattern-{next(_serial)}", str(uuid.uuid4())
    secured.grant(allow("READ", group=group), allow("DESCRIBE", topic=TOPIC))
    asked = core.MetadataRequest(topics=[core.MetadataRequest.Topic(name=TOPIC)])
    visible = raw.call(asked, 12).topics[0].topic_id
    epoch = 0

    def assigned() -> set[uuid.UUID]:
        nonlocal epoch
        answer = raw.call(
            cg.ConsumerGroupHeartbeatRequest(
                group_id=group,
                member_id=member,
                member_epoch=epoch,
                rebalance_timeout_ms=300_000,
                subscribed_topic_regex=f"({TOPIC}|{HIDDEN})",
                server_assignor="uniform",
                topic_partitions=[],
            ),
            1,
        )
        assert answer.error_code == ErrorCode.NONE, answer.error_message
        epoch = answer.member_epoch
        found = answer.assignment.topic_partitions if answer.assignment else ()
        return {one.topic_id for one in found}

    assert eventually(assigned, "the member has topics") == {visible}


def listed_groups(raw: RawClient) -> set[str]:
    return {group.group_id for group in raw.call(groups.ListGroupsRequest(), 4).groups}


def test_only_visible_groups_are_listed(secured: Secured, raw: RawClient) -> None:
    secured.grant()
    assert listed_groups(raw) == set()
    secured.grant(allow("DESCRIBE", group=GROUP))
    assert listed_groups(raw) == {GROUP}
    secured.grant(allow("DESCRIBE", cluster=True))
    assert GROUP in listed_groups(raw)


def test_only_visible_transactions_are_listed(secured: Secured, raw: RawClient) -> None:
    def listed() -> set[str]:
        request = t.ListTransactionsRequest(state_filters=[], producer_id_filters=[])
        return {one.transactional_id for one in raw.call(request, 0).transaction_states}

    secured.grant()
    assert listed() == set()
    secured.grant(allow("DESCRIBE", transactional_id=TXN))
    assert listed() == {TXN}


def test_a_described_transaction_has_visible_topics_only(secured: Secured, raw: RawClient) -> None:
    secured.grant(allow("DESCRIBE", transactional_id=TXN), allow("WRITE", topic=TOPIC))
    probe = PROBES[ApiKey.DESCRIBE_TRANSACTIONS]
    (described,) = raw.call(probe.request, probe.version).transaction_states
    assert [topic.topic for topic in described.topics] == [TOPIC]


def test_refused_markers_are_answered_once_for_each_producer(
    secured: Secured, raw: RawClient
) -> None:
    def marker(producer_id: int, **topics: list[int]) -> t.WriteTxnMarkersRequest.Marker:
        return _MARKER(
            producer_id=producer_id,
            producer_epoch=0,
            transaction_result=False,
            topics=[_MARKER.Topic(name=name, partition_indexes=topics[name]) for name in topics],
            coordinator_epoch=0,
        )

    secured.grant()
    markers = [marker(1, visible=[0]), marker(1, visible=[], hidden=[0]), marker(2, visible=[])]
    answered = raw.call(t.WriteTxnMarkersRequest(markers=markers), 1).markers
    told = sorted((one.producer_id, [topic.name for topic in one.topics]) for one in answered)
    assert told == [(1, [HIDDEN]), (2, [])]


def test_committed_offsets_are_shown_of_visible_topics_only(
    secured: Secured, raw: RawClient
) -> None:
    secured.grant(allow("DESCRIBE", group=GROUP), allow("DESCRIBE", topic=TOPIC))
    everything = PROBES[ApiKey.OFFSET_FETCH].request
    (found,) = raw.call(everything, 8).groups
    assert [topic.name for topic in found.topics] == [TOPIC]
    _Topic = groups.OffsetFetchRequest.Group.Topic
    asked = [_Topic(name=name, partition_indexes=[0]) for name in (TOPIC, HIDDEN)]
    one = groups.OffsetFetchRequest.Group(group_id=GROUP, topics=asked)
    (found,) = raw.call(groups.OffsetFetchRequest(groups=[one]), 8).groups
    told = {topic.name: topic.partitions[0] for topic in found.topics}
    assert (told[TOPIC].error_code, told[TOPIC].committed_offset) == (0, 1)
    assert (told[HIDDEN].error_code, told[HIDDEN].committed_offset) == (NO_TOPIC, -1)


def test_a_request_for_two_topics_serves_the_one_that_is_allowed(
    secured: Secured, raw: RawClient
) -> None:
    secured.grant(allow("WRITE", topic=TOPIC))
    both = [*produced(TOPIC).topic_data, *produced(HIDDEN).topic_data]
    request = core.ProduceRequest(acks=1, timeout_ms=5000, topic_data=both)
    answers = {topic.name: topic for topic in raw.call(request, 9).responses}
    assert answers[HIDDEN].partition_responses[0].error_code == NO_TOPIC
    assert answers[TOPIC].partition_responses[0].error_code == ErrorCode.NONE
    assert answers[TOPIC].partition_responses[0].base_offset > 0


def test_a_forbidden_write_without_an_answer_ends_the_connection(
    secured: Secured, raw: RawClient
) -> None:
    secured.grant(allow("DESCRIBE", topic=TOPIC))
    raw.send(produced(TOPIC, acks=0), 9)
    with pytest.raises(ConnectionError):
        raw.receive_frame()


def test_a_fetch_session_loses_a_topic_with_the_right_to_read_it(
    secured: Secured, raw: RawClient
) -> None:
    secured.grant(allow("READ", topic=TOPIC))
    first = raw.call(fetched(TOPIC, session_id=0, session_epoch=0), 11)
    assert codes(first) == set()
    secured.grant()
    next_one = fetched("", session_id=first.session_id, session_epoch=1)
    again = raw.call(next_one, 11)
    assert [p.error_code for topic in again.responses for p in topic.partitions] == [NO_TOPIC]
    secured.grant(allow("READ", topic=TOPIC))
    next_one = fetched("", session_id=first.session_id, session_epoch=2)
    assert codes(raw.call(next_one, 11)) == set()


def test_a_denial_wins_over_permissions(secured: Secured, raw: RawClient) -> None:
    secured.grant(*EVERYTHING, Acl.deny(ANYONE, "WRITE", topic=TOPIC))
    assert codes(raw.call(produced(TOPIC), 9)) == {NO_TOPIC}
    assert codes(raw.call(produced(HIDDEN), 9)) == set()


def may_write(raw: RawClient, topic: str = TOPIC) -> bool:
    return NO_TOPIC not in codes(raw.call(produced(topic), 9))


@pytest.mark.parametrize(
    ("acls", "allowed"),
    [
        ([allow("WRITE", topic=TOPIC)], True),
        ([allow("WRITE", topic="*")], True),
        ([allow("WRITE", topic="vis", prefixed=True)], True),
        ([allow("WRITE", topic="vis")], False),
        ([allow("WRITE", topic="*", prefixed=True)], False),
        ([allow("WRITE", topic="hid", prefixed=True)], False),
        ([allow("ALL", topic=TOPIC)], True),
        ([allow("READ", topic=TOPIC)], False),
        ([Acl.allow("*", "WRITE", topic=TOPIC)], True),
        ([Acl.allow("somebody", "WRITE", topic=TOPIC)], False),
        ([allow("WRITE", topic=TOPIC), Acl.deny("*", "WRITE", topic="*")], False),
        ([allow("WRITE", topic=TOPIC), Acl.deny(ANYONE, "ALL", topic="vis", prefixed=True)], False),
        ([allow("WRITE", topic=TOPIC), Acl.deny(ANYONE, "READ", topic=TOPIC)], True),
        ([allow("WRITE", topic=TOPIC), Acl.deny(ANYONE, "DESCRIBE", topic=TOPIC)], True),
        ([allow("WRITE", topic=TOPIC), Acl.deny("somebody", "WRITE", topic=TOPIC)], True),
        ([allow("WRITE", topic=TOPIC), Acl.deny(ANYONE, "WRITE", topic=HIDDEN)], True),
        ([allow("WRITE", topic=TOPIC, host="127.0.0.1")], True),
        ([allow("WRITE", topic=TOPIC, host="127.0.0.2")], False),
        ([allow("WRITE", topic=TOPIC, host="127.0.0.0/8")], False),
        (
            [allow("WRITE", topic=TOPIC), Acl.deny("*", "WRITE", topic=TOPIC, host="127.0.0.1")],
            False,
        ),
        (
            [allow("WRITE", topic=TOPIC), Acl.deny("*", "WRITE", topic=TOPIC, host="127.0.0.2")],
            True,
        ),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, list) else None,
)
def test_patterns_principals_hosts_and_denials(
    secured: Secured, raw: RawClient, acls: list[Acl], allowed: bool
) -> None:
    secured.grant(*acls)
    assert may_write(raw) is allowed


@pytest.mark.parametrize(
    ("right", "implies"),
    [
        ("READ", True),
        ("WRITE", True),
        ("DELETE", True),
        ("ALTER", True),
        ("CREATE", False),
        ("ALTER_CONFIGS", False),
        ("DESCRIBE_CONFIGS", False),
    ],
)
def test_some_rights_imply_the_right_to_describe(
    secured: Secured, raw: RawClient, right: str, implies: bool
) -> None:
    secured.grant(allow(right, topic=TOPIC))
    assert names(secured, raw) == ({TOPIC} if implies else set())
    secured.grant(allow(right, topic=TOPIC), Acl.deny(ANYONE, "DESCRIBE", topic=TOPIC))
    assert names(secured, raw) == set()


def test_a_client_from_elsewhere_has_the_rights_of_its_host(secured: Secured) -> None:
    secured.grant(allow("WRITE", topic=TOPIC, host="127.0.0.2"))
    address = parse_address(secured.bootstrap_servers)
    with RawClient(*address, from_host="127.0.0.2") as elsewhere, secured.connect() as here:
        assert may_write(elsewhere)
        assert not may_write(here)


def bits(*operations: str) -> int:
    return sum(1 << AclOperation[operation] for operation in operations)


def test_authorized_operations_are_those_that_are_allowed(secured: Secured, raw: RawClient) -> None:
    secured.grant(
        allow("WRITE", topic=TOPIC),
        allow("READ", group=GROUP),
        allow("ALTER", cluster=True),
        allow("ALTER_CONFIGS", cluster=True),
    )
    asked = core.MetadataRequest(
        topics=[core.MetadataRequest.Topic(name=TOPIC)],
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    answer = raw.call(asked, 9)
    of_cluster = bits("ALTER", "DESCRIBE", "ALTER_CONFIGS", "DESCRIBE_CONFIGS")
    assert answer.topics[0].topic_authorized_operations == bits("WRITE", "DESCRIBE")
    assert answer.cluster_authorized_operations == of_cluster
    request = core.DescribeClusterRequest(include_cluster_authorized_operations=True)
    assert raw.call(request, 0).cluster_authorized_operations == of_cluster
    described = groups.DescribeGroupsRequest(groups=[GROUP], include_authorized_operations=True)
    (group,) = raw.call(described, 5).groups
    assert group.authorized_operations == bits("READ", "DESCRIBE")
    pages = core.DescribeTopicPartitionsRequest(
        topics=[core.DescribeTopicPartitionsRequest.Topic(name=TOPIC)]
    )
    (page,) = raw.call(pages, 0).topics
    assert page.topic_authorized_operations == bits("WRITE", "DESCRIBE")


def test_the_clusters_operations_are_for_those_who_may_describe_it(
    secured: Secured, raw: RawClient
) -> None:
    secured.grant(allow("CREATE", cluster=True))
    request = core.DescribeClusterRequest(include_cluster_authorized_operations=True)
    assert raw.call(request, 0).cluster_authorized_operations == 0


def test_acls_are_created_described_and_deleted(secured: Secured, raw: RawClient) -> None:
    admin = allow("ALTER", cluster=True)
    secured.grant(admin)
    literal = Acl.allow("job", "READ", topic="orders")
    prefixed = Acl.deny("job", "WRITE", topic="ord", prefixed=True, host="10.0.0.1")
    created = raw.call(
        security.CreateAclsRequest(creations=[creation(literal), creation(prefixed)]), 3
    )
    assert codes(created) == set()

    def described(name: str | None, pattern: PatternType) -> set[tuple[int, str, int]]:
        asked = {**_ANY_ACL, "resource_name_filter": name, "pattern_type_filter": pattern}
        answer = raw.call(security.DescribeAclsRequest(**{**asked, "resource_type_filter": 2}), 3)
        return {
            (resource.pattern_type, resource.resource_name, acl.permission_type)
            for resource in answer.resources
            for acl in resource.acls
        }

    one, other = (3, "orders", 3), (4, "ord", 2)
    eventually(lambda: described("orders", PatternType.MATCH) == {one, other}, "both match")
    assert described("orders", PatternType.ANY) == {one}
    assert described(None, PatternType.PREFIXED) == {other}
    wanted = {**_ANY_ACL, "resource_name_filter": "orders", "pattern_type_filter": 2}
    deleted = raw.call(
        security.DeleteAclsRequest(filters=[security.DeleteAclsRequest.Filter(**wanted)] * 2), 3
    )
    assert codes(deleted) == set()
    assert [len(result.matching_acls) for result in deleted.filter_results] == [2, 2]
    eventually(lambda: described(None, PatternType.ANY) == set(), "they are gone")


def created(raw: RawClient, **wrong: Any) -> list[int]:  # Any: fields of a creation
    """The results of an ACL with these fields, and of a good one."""
    good = creation(Acl.allow("job", "READ", topic="orders"))
    fields = {field.name: getattr(good, field.name) for field in schema_of(type(good)).fields}
    bad = security.CreateAclsRequest.Creation(**{**fields, **wrong})
    answer = raw.call(security.CreateAclsRequest(creations=[bad, good]), 3)
    return [result.error_code for result in answer.results]


@pytest.mark.parametrize(
    "wrong",
    [
        {"resource_type": 4, "resource_name": "other-cluster"},
        {"resource_name": ""},
        {"resource_type": 99},
        {"operation": 99},
    ],
    ids=str,
)
def test_an_acl_that_cannot_be_is_refused(
    secured: Secured, raw: RawClient, wrong: dict[str, Any]
) -> None:
    secured.grant(allow("ALTER", cluster=True))
    assert created(raw, **wrong) == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE]


@pytest.mark.parametrize(
    "wrong",
    [
        {"resource_type": 1},
        {"resource_pattern_type": 1},
        {"resource_pattern_type": 2},
        {"operation": 1},
        {"permission_type": 1},
    ],
    ids=str,
)
def test_an_acl_like_a_filter_fails_the_others_too(
    secured: Secured, raw: RawClient, wrong: dict[str, Any]
) -> None:
    secured.grant(allow("ALTER", cluster=True))
    assert created(raw, **wrong) == [ErrorCode.UNKNOWN_SERVER_ERROR] * 2


@pytest.mark.parametrize("field", ["resource_type", "operation"])
def test_an_acl_of_an_unknown_kind_ends_the_connection(
    secured: Secured, raw: RawClient, field: str
) -> None:
    secured.grant(allow("ALTER", cluster=True))
    with pytest.raises(ConnectionError):
        created(raw, **{field: 0})
