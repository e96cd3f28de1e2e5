"""ApiVersions: every client's first request, which must work with any peer."""

import struct

import pytest

from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.codec import decode
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.core import ApiVersionsRequest, ApiVersionsResponse
from tests.wire.clients import Cluster
from tests.wire.one_partition import each_version
from tests.wire.raw_client import RawClient

#: The versions that librdkafka, the Java clients and Spark send; some of them insist on one.
NEEDED = {
    ApiKey.PRODUCE: range(3, 12),
    ApiKey.FETCH: range(4, 18),
    ApiKey.LIST_OFFSETS: range(1, 10),
    ApiKey.METADATA: range(13),
    ApiKey.OFFSET_COMMIT: range(2, 10),
    ApiKey.OFFSET_FETCH: range(1, 10),
    ApiKey.FIND_COORDINATOR: range(7),
    ApiKey.JOIN_GROUP: range(2, 10),
    ApiKey.HEARTBEAT: range(5),
    ApiKey.LEAVE_GROUP: range(6),
    ApiKey.SYNC_GROUP: range(6),
    ApiKey.DESCRIBE_GROUPS: range(6),
    ApiKey.LIST_GROUPS: range(6),
    ApiKey.API_VERSIONS: range(5),
    ApiKey.CREATE_TOPICS: range(2, 8),
    ApiKey.DELETE_TOPICS: range(1, 7),
    ApiKey.DELETE_RECORDS: range(3),
    ApiKey.INIT_PRODUCER_ID: range(6),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: range(2, 5),
    ApiKey.ADD_PARTITIONS_TO_TXN: range(4),
    ApiKey.ADD_OFFSETS_TO_TXN: range(5),
    ApiKey.END_TXN: range(6),
    ApiKey.TXN_OFFSET_COMMIT: range(6),
    ApiKey.DESCRIBE_CONFIGS: range(1, 5),
    ApiKey.ALTER_CONFIGS: range(3),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: range(2),
    ApiKey.CREATE_PARTITIONS: range(4),
    ApiKey.DELETE_GROUPS: range(3),
    ApiKey.DESCRIBE_CLUSTER: range(2),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: range(1),
    ApiKey.DESCRIBE_LOG_DIRS: range(1, 5),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: range(2),
    ApiKey.CONSUMER_GROUP_DESCRIBE: range(2),
}


@pytest.mark.both_io_modes
def test_every_version_lists_the_apis_of_the_broker(raw: RawClient) -> None:
    def check(version: int) -> None:
        request = ApiVersionsRequest(client_software_name="raw", client_software_version="1.0")
        answer = raw.call(request, version)
        assert answer.error_code == ErrorCode.NONE
        assert {api.api_key for api in answer.api_keys} >= set(NEEDED)

    each_version(raw, ApiVersionsRequest, check)


@pytest.mark.parametrize("api_key", NEEDED, ids=lambda key: key.name)
def test_versions_that_stock_clients_send_are_supported(raw: RawClient, api_key: ApiKey) -> None:
    supported = raw.supported_versions(api_key)
    assert set(NEEDED[api_key]) <= set(supported)


def test_produce_is_advertised_from_version_0_for_old_librdkafka(raw: RawClient) -> None:
    # KAFKA-18659: without version 0, librdkafka sends its batches uncompressed.
    answer = raw.call(ApiVersionsRequest(), 0)
    (produce,) = (api for api in answer.api_keys if api.api_key == ApiKey.PRODUCE)
    assert produce.min_version == 0


def test_control_requests_are_not_for_clients(cluster: Cluster, raw: RawClient) -> None:
    answer = raw.call(ApiVersionsRequest(), 0)
    control = {ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA}
    assert control.isdisjoint(api.api_key for api in answer.api_keys)
    for api_key in control:
        with cluster.connect() as client, pytest.raises(ConnectionError):
            client.send_frame(struct.pack(">hhih", api_key, 5, 1, -1))
            client.receive_frame()


def test_an_unknown_version_is_answered_in_version_0_with_the_known_ones(raw: RawClient) -> None:
    header = struct.pack(">hhih", ApiKey.API_VERSIONS, 999, 77, 3) + b"raw\0"
    raw.send_frame(header + b"\x04raw\x041.0\0")
    frame = raw.receive_frame()
    answer = decode(ApiVersionsResponse, 0, memoryview(frame)[4:])
    assert frame[:4] == struct.pack(">i", 77)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    (known,) = answer.api_keys
    assert known.api_key == ApiKey.API_VERSIONS
    assert known.min_version == 0
    assert known.max_version >= 4


def test_the_connection_goes_on_after_an_unknown_version(raw: RawClient) -> None:
    raw.send_frame(struct.pack(">hhih", ApiKey.API_VERSIONS, 999, 77, -1) + b"\0\x01\x01\0")
    raw.receive_frame()
    assert raw.call(ApiVersionsRequest(), 0).error_code == ErrorCode.NONE


@pytest.mark.parametrize(("name", "version"), [("", "1"), ("raw", ""), ("a b", "1"), ("-x", "1")])
def test_a_malformed_client_name_is_an_invalid_request(
    raw: RawClient, name: str, version: str
) -> None:
    request = ApiVersionsRequest(client_software_name=name, client_software_version=version)
    assert raw.call(request, 3).error_code == ErrorCode.INVALID_REQUEST


def test_an_unknown_version_of_another_api_ends_the_connection(raw: RawClient) -> None:
    raw.send_frame(struct.pack(">hhih", ApiKey.METADATA, 999, 1, -1) + b"\0\0")
    with pytest.raises(ConnectionError):
        raw.receive_frame()
