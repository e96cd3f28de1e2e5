"""Creates, grows and deletes topics of any cluster, as any admin client does.

Owner: the caller's thread. Any: confluent-kafka has no types, and is imported late.
Not here: the same for embedded brokers, without confluent-kafka (`admin`).
"""

from typing import TYPE_CHECKING, Any, Final

from embedkafka.cluster.config import TopicShape
from embedkafka.runtime.arguments import MAX_INT16, MAX_INT32, require_int, require_mapping
from embedkafka.runtime.failures import ConfigError, EmbedKafkaError

if TYPE_CHECKING:
    from embedkafka.spark.client_settings import ClientSettings

_CLIENT_ID: Final = "embedkafka-admin"
_TIMEOUT_S: Final = 30
_ANSWER_TIMEOUT_S: Final = 10
_BROKER_DEFAULT: Final = -1


class TopicExistsError(EmbedKafkaError):
    """There is a topic of that name."""


class ClientAdmin:
    """`handles.reach.TopicRequests` of any cluster."""

    def __init__(self, client: Any) -> None:
        """`client` is an admin client of confluent-kafka."""
        self._client = client

    def create_topic(self, name: str, shape: TopicShape) -> None:
        """Creates a topic; the cluster alone knows which settings it has."""
        from confluent_kafka import KafkaError, KafkaException
        from confluent_kafka.cimpl import NewTopic

        partitions, replication, config = shape
        require_int("partitions", partitions, least=1, most=MAX_INT32, refusal=ConfigError)
        if replication is not None:
            require_int("replication", replication, least=1, most=MAX_INT16, refusal=ConfigError)
        settings = require_mapping("config", config, '{"retention.ms": 60000}')
        new = NewTopic(
            name,
            num_partitions=partitions,
            replication_factor=_BROKER_DEFAULT if replication is None else replication,
            config={str(key): str(value) for key, value in settings.items()},
        )
        try:
            self._client.create_topics([new])[name].result(_TIMEOUT_S)
        except KafkaException as error:
            refused = f"cannot create topic {name}: {error.args[0].str()}"
            if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                hint = " `existing_topic` returns its handle."
                raise TopicExistsError(f"{refused}{hint}") from error
            raise EmbedKafkaError(refused) from error

    def create_partitions(self, topic: str, count: int) -> None:
        from confluent_kafka import KafkaException
        from confluent_kafka.cimpl import NewPartitions

        try:
            self._client.create_partitions([NewPartitions(topic, count)])[topic].result(_TIMEOUT_S)
        except KafkaException as error:
            raise EmbedKafkaError(f"cannot grow topic {topic}: {error.args[0].str()}") from error

    def delete_topic(self, name: str, *, timeout_ms: int) -> bool:
        from confluent_kafka import KafkaError, KafkaException

        try:
            timeout_s = timeout_ms / 1000
            self._client.delete_topics([name], operation_timeout=timeout_s)[name].result(_TIMEOUT_S)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.REQUEST_TIMED_OUT:
                return False
            raise EmbedKafkaError(f"cannot delete topic {name}: {error.args[0].str()}") from error
        return True


def require_admin(bootstrap_servers: str, settings: "ClientSettings | None") -> Any:
    """An admin client that has spoken with a broker.

    Raises:
        EmbedKafkaError: the cluster does not answer, or the client refuses its settings.
    """
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import AdminClient

    reported: list[Any] = []  # the client's errors
    connection = {} if settings is None else settings.librdkafka
    config: dict[str, Any] = {
        "client.id": _CLIENT_ID,
        **connection,
        "bootstrap.servers": bootstrap_servers,
        "log_level": 0,
        "error_cb": reported.append,
    }
    try:
        admin = AdminClient(config)
    except (KafkaException, ValueError) as error:
        raise EmbedKafkaError(f"the Kafka client refuses its settings: {error}") from error
    for _ in range(_ANSWER_TIMEOUT_S):
        try:
            admin.list_topics(timeout=1)
            return admin
        except KafkaException:
            admin.poll(0)  # fills `reported`
        if any(error.code() == KafkaError._ALL_BROKERS_DOWN for error in reported):
            break
    told = [error.str() for error in reported if error.code() != KafkaError._ALL_BROKERS_DOWN]
    reason = next((f": {text.partition(' (after ')[0]}" for text in told), "")
    raise EmbedKafkaError(f"no broker answers at {bootstrap_servers}{reason}")
