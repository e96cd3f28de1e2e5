"""Which connections are clients that a test has left."""

import sys
from types import ModuleType

import pytest

from embedkafka.cluster.restoring.connections import _left
from embedkafka.wire.net.socket_server import Connection
from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.client_software import UNKNOWN_SOFTWARE, ClientSoftware
from embedkafka.wire.protocol.headers import encode_request_header

JAVA = ClientSoftware("apache-kafka-java", "3.9.0")
FIRST = bytes(
    encode_request_header(ApiKey.API_VERSIONS, 0, correlation_id=1, client_id="executor-1")
)
"""What Java sends before it logs in: it names no software."""


def connection(*, software: ClientSoftware, may_have_left: bool = False) -> Connection:
    return Connection("1", "127.0.0.1:5", FIRST, "SASL", software, may_have_left)


def left(found: Connection) -> list[str]:
    return [str(client) for client in _left({"1": found}, {})]


def test_the_clients_that_spark_keeps_are_not_the_test_s_on_a_secured_cluster_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept = connection(software=JAVA)
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    assert left(kept) == ["client executor-1 (apache-kafka-java 3.9.0)"]
    monkeypatch.setitem(sys.modules, "pyspark", ModuleType("pyspark"))
    assert left(kept) == []
    assert left(connection(software=UNKNOWN_SOFTWARE)) == ["client executor-1"]


def test_a_client_whose_end_the_broker_does_not_read_yet_is_none_that_was_left() -> None:
    assert left(connection(software=ClientSoftware("librdkafka", "2"), may_have_left=True)) == []
