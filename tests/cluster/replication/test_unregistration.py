"""A broker that is down is fenced, until it is unregistered or returns."""

from embedkafka import EmbeddedKafka
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.core import DescribeClusterRequest
from embedkafka.wire.protocol.messages.quorum import UnregisterBrokerRequest
from tests.wire.raw_client import RawClient


def connect(kafka: EmbeddedKafka) -> RawClient:
    host, _, port = kafka.bootstrap_servers.split(",")[0].rpartition(":")
    return RawClient(host, int(port))


def described(raw: RawClient) -> dict[int, tuple[str, bool]]:
    """The address of every broker, and whether it is fenced."""
    request = DescribeClusterRequest(
        include_cluster_authorized_operations=False, include_fenced_brokers=True
    )
    return {
        node.broker_id: (f"{node.host}:{node.port}", node.is_fenced)
        for node in raw.call(request).brokers
    }


def unregister(raw: RawClient, broker_id: int) -> ErrorCode:
    return ErrorCode(raw.call(UnregisterBrokerRequest(broker_id=broker_id)).error_code)


def test_a_broker_that_is_down_is_fenced_until_it_returns() -> None:
    with EmbeddedKafka(brokers=2) as kafka, connect(kafka) as raw:
        addresses = dict(zip((1, 2), kafka.bootstrap_servers.split(","), strict=True))
        kafka.broker(2).stop()
        kafka.brokers.await_all()
        assert described(raw) == {1: (addresses[1], False), 2: (addresses[2], True)}
        kafka.broker(2).start()
        assert {broker: fenced for broker, (_, fenced) in described(raw).items()} == {
            1: False,
            2: False,
        }


def test_a_broker_that_is_down_can_be_forgotten() -> None:
    with EmbeddedKafka(brokers=2) as kafka, connect(kafka) as raw:
        assert unregister(raw, 2) is ErrorCode.INVALID_REQUEST  # it runs
        kafka.broker(2).stop()
        kafka.brokers.await_all()
        assert unregister(raw, 2) is ErrorCode.NONE
        assert set(described(raw)) == {1}
        assert unregister(raw, 2) is ErrorCode.BROKER_ID_NOT_REGISTERED
        kafka.broker(2).start()
        assert set(described(raw)) == {1, 2}
