"""Creates, grows and deletes topics through real requests to a broker that answers.

Other owners of requests send theirs with `Admin.call`.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar

from embedkafka.broker.settings.definition import format_value
from embedkafka.cluster.config import TopicShape, TopicSpec
from embedkafka.runtime.failures import ClusterClosed, EmbedKafkaError
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.wire_types import ZERO_UUID

if TYPE_CHECKING:
    from embedkafka.wire.net.client import BrokerClient
    from embedkafka.wire.protocol.messages.topics import CreateTopicsRequest

_CREATE_TOPICS, _DELETE_TOPICS, _CREATE_PARTITIONS = 7, 6, 3
_TIMEOUT_MS = 30_000
_GRACE_MS = 1_000
"""How much longer than the request's own timeout its answer may take."""
_BROKER_DEFAULT = -1
_HINTS = {ErrorCode.TOPIC_ALREADY_EXISTS: " `existing_topic` returns its handle."}

R = TypeVar("R")


class Admin:
    """Sends requests to the first broker that answers, with one of `new_clients()`."""

    def __init__(
        self,
        new_clients: "Callable[[], Iterable[BrokerClient]]",
        maker_of: Callable[[str], str | None] = lambda name: None,
    ) -> None:
        """`maker_of` knows the id of the client that had a topic created by asking for it."""
        self._new_clients = new_clients
        self._maker_of = maker_of

    def create_topic(self, name: str, shape: TopicShape) -> None:
        """Creates one topic; raises `ConfigError` for settings that no topic has."""
        self.create_topics({name: TopicSpec(**shape._asdict())})

    def create_topics(self, topics: Mapping[str, TopicSpec]) -> None:
        """Creates all of `topics`; raises the first refusal."""
        from embedkafka.wire.protocol.messages.topics import CreateTopicsRequest  # on first use

        request = CreateTopicsRequest(
            topics=[_topic(name, spec) for name, spec in topics.items()], timeout_ms=_TIMEOUT_MS
        )
        response, is_repeated = self.call(lambda client: client.call(request, _CREATE_TOPICS))
        for topic in response.topics:
            if is_repeated and topic.error_code == ErrorCode.TOPIC_ALREADY_EXISTS:
                continue  # by the first request, whose answer was lost
            message = topic.error_message
            if topic.error_code == ErrorCode.TOPIC_ALREADY_EXISTS:
                message = _made_for(self._maker_of(topic.name)) or message
            _check("create", topic.name, topic.error_code, message)

    def create_partitions(self, topic: str, count: int) -> None:
        """Grows `topic` to `count` partitions."""
        from embedkafka.wire.protocol.messages.topics import CreatePartitionsRequest  # on first use

        wanted = CreatePartitionsRequest.Topic(name=topic, count=count, assignments=None)
        request = CreatePartitionsRequest(
            topics=[wanted], timeout_ms=_TIMEOUT_MS, validate_only=False
        )
        response, _ = self.call(lambda client: client.call(request, _CREATE_PARTITIONS))
        for result in response.results:
            _check("grow", topic, result.error_code, result.error_message)

    def delete_topic(self, name: str, *, timeout_ms: int) -> bool:
        """Deletes a topic; returns whether that was over in time. Raises a refusal."""
        from embedkafka.wire.protocol.messages.topics import DeleteTopicsRequest  # on first use

        wanted = DeleteTopicsRequest.Topic(name=name, topic_id=ZERO_UUID)
        request = DeleteTopicsRequest(topics=[wanted], timeout_ms=timeout_ms)
        response, is_repeated = self.call(
            lambda client: client.call(request, _DELETE_TOPICS, timeout_ms=timeout_ms + _GRACE_MS)
        )
        (topic,) = response.responses
        if topic.error_code == ErrorCode.REQUEST_TIMED_OUT:
            return False
        if not is_repeated or topic.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            _check("delete", name, topic.error_code, topic.error_message)
        return True  # or it was by the first request, whose answer was lost

    def call(self, ask: "Callable[[BrokerClient], R]") -> tuple[R, bool]:
        """The answer, and whether an earlier broker may have done it and not answered."""
        failure: OSError | None = None
        may_be_done = False
        for client in self._new_clients():
            try:
                return ask(client), may_be_done
            except OSError as error:
                failure = error
                may_be_done |= not isinstance(error, ConnectionRefusedError)
            finally:
                client.close()
        raise ClusterClosed(f"no broker answers: {failure}") from failure


def _topic(name: str, spec: TopicSpec) -> "CreateTopicsRequest.Topic":
    from embedkafka.wire.protocol.messages.topics import CreateTopicsRequest  # on first use

    return CreateTopicsRequest.Topic(
        name=name,
        num_partitions=spec.partitions,
        replication_factor=_BROKER_DEFAULT if spec.replication is None else spec.replication,
        assignments=[],
        configs=[
            CreateTopicsRequest.Topic.Config(name=key, value=format_value(value))
            for key, value in spec.config.items()
        ],
    )


def _made_for(client_id: str | None) -> str:
    """Why a topic exists already, if a client had it created."""
    if client_id is None:
        return ""
    return (
        f"client {client_id or '-'} has asked for it, which creates it with the broker's settings. "
        "Create it before clients ask, or set auto.create.topics.enable=false."
    )


def _check(verb: str, topic: str, code: int, message: str | None) -> None:
    if code:
        error = ErrorCode(code)
        reason = f"cannot {verb} topic {topic}: {error.name}: {message or error.message}"
        raise EmbedKafkaError(f"{reason}{_HINTS.get(error, '')}")
