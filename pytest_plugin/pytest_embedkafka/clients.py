"""The clients of one test: confluent-kafka's, made with settings and closed after the test.

Clients for asyncio belong to the test's event loop, so the test closes them by `async with`.

Settings are those of librdkafka, as a mapping or as keywords: `linger_ms=5` is `linger.ms`, and
callbacks such as `error_cb` keep their names.
Any: confluent-kafka has no types, and is imported late.
"""

import contextlib
from collections.abc import AsyncIterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    from embedkafka import Cluster, Topic

_CLOSE_S: Final = 5.0
"""How long a producer may take to send what is left; the brokers may be dead."""
_UNDERSCORED: Final = ("log_level", "enabled_events", "log_queue")
_QUIET: Final = {"log_level": 2, "log.connection.close": False}

Settings = Mapping[str, object] | None


class TestClients:
    """Makes clients of one cluster, and closes them together."""

    __test__ = False  # not a class of tests

    def __init__(self, kafka: "Cluster", group: str) -> None:
        self._kafka = kafka
        self._group = group
        self._producers: list[Any] = []
        self._consumers: list[Any] = []
        self._admins: list[Any] = []

    def producer(self, settings: Settings = None, **more: object) -> Any:
        """A `confluent_kafka.Producer`."""
        from confluent_kafka import Producer

        producer = Producer(self._settings(settings, more))
        self._producers.append(producer)
        return producer

    def consumer(self, *topics: "Topic | str", settings: Settings = None, **more: object) -> Any:
        """A `confluent_kafka.Consumer`, subscribed to topics or their handles.

        By default it is in the test's group and reads from the first record.
        """
        from confluent_kafka import Consumer

        consumer = Consumer(self._consumer_settings(settings, more))
        self._consumers.append(consumer)
        if topics:
            consumer.subscribe([_topic_name(topic) for topic in topics])
        return consumer

    def admin(self, settings: Settings = None, **more: object) -> Any:
        """A `confluent_kafka.admin.AdminClient`."""
        from confluent_kafka.admin import AdminClient

        admin = AdminClient(self._settings(settings, more))
        self._admins.append(admin)  # without it, what was asked is never answered
        return admin

    @contextlib.asynccontextmanager
    async def aio_producer(self, settings: Settings = None, **more: object) -> AsyncIterator[Any]:
        """A `confluent_kafka.aio.AIOProducer` for the running event loop."""
        producer = _require_aio().AIOProducer(self._settings(settings, more))
        try:
            yield producer
        finally:
            await _close_aio_producer(producer)

    @contextlib.asynccontextmanager
    async def aio_consumer(
        self, *topics: "Topic | str", settings: Settings = None, **more: object
    ) -> AsyncIterator[Any]:
        """A `confluent_kafka.aio.AIOConsumer`, subscribed and in the test's group likewise."""
        names = [_topic_name(topic) for topic in topics]
        consumer = _require_aio().AIOConsumer(self._consumer_settings(settings, more))
        try:
            if names:
                await consumer.subscribe(names)
            yield consumer
        finally:
            await _close_aio_consumer(consumer)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for consumer in self._consumers:
            _close_consumer(consumer)
        for producer in self._producers:
            _close_producer(producer)
        for clients in (self._consumers, self._producers, self._admins):
            clients.clear()

    def _consumer_settings(self, settings: Settings, more: Mapping[str, object]) -> dict[str, Any]:
        defaults = {"group.id": self._group, "auto.offset.reset": "earliest"}
        return {**defaults, **self._settings(settings, more)}

    def _settings(self, settings: Settings, more: Mapping[str, object]) -> dict[str, Any]:
        named = {_dotted(name, value): value for name, value in more.items()}
        given = {**_require_settings(settings), **named}
        _require_writable(given)
        return {**_QUIET, **self._kafka.client_config(), **given}


def _dotted(name: str, value: object) -> str:
    """The setting's name. Callbacks of confluent-kafka and a few settings have underscores."""
    if callable(value) or name.endswith("_cb") or name in _UNDERSCORED:
        return name
    return name.replace("_", ".")


def _require_settings(settings: object) -> Mapping[str, object]:
    """Refuses what the client, which is written in C, would crash on or cut off."""
    from embedkafka.runtime.arguments import require_mapping, require_text

    found = require_mapping("settings", settings or {}, '{"linger.ms": 5}')
    return {require_text("the name of a setting", name): value for name, value in found.items()}


def _require_writable(settings: Mapping[str, object]) -> None:
    from embedkafka import InvalidArgument
    from embedkafka.runtime.arguments import find_text_fault, shown

    for name, value in settings.items():
        if isinstance(value, str) and (fault := find_text_fault(value)):
            raise InvalidArgument(f"{name} {fault}, got {shown(value)}")


def _topic_name(topic: Any) -> str:
    """Any: a topic's handle or its name, which is checked here."""
    from embedkafka.runtime.arguments import require_text

    return require_text("a topic", getattr(topic, "name", topic))


def _require_aio() -> Any:
    """The module with confluent-kafka's clients for asyncio, which came later than the others."""
    try:
        import confluent_kafka.aio as aio
    except ImportError as error:
        from embedkafka import EmbedKafkaError

        raise EmbedKafkaError(
            "the installed confluent-kafka has no `confluent_kafka.aio`: "
            "run `pip install --upgrade confluent-kafka`"
        ) from error
    return aio


def _close_consumer(consumer: Any) -> None:
    """Takes an assignment that was never polled first.

    Without that, `close` never returns if the coordinator is out of reach (librdkafka 2.16).
    """
    from confluent_kafka import KafkaException

    with contextlib.suppress(RuntimeError):  # the test has closed it
        if not consumer.assignment():
            with contextlib.suppress(KafkaException):
                consumer.poll(0)
        consumer.close()


def _close_producer(producer: Any) -> None:
    """Sends what is left, and gives up a transaction that is still open."""
    from confluent_kafka import KafkaException

    with contextlib.suppress(KafkaException):  # there is none, or it has been fenced
        producer.abort_transaction(_CLOSE_S)
    with contextlib.suppress(KafkaException):
        if producer.flush(_CLOSE_S):
            producer.purge()
        if hasattr(producer, "close"):  # since confluent-kafka 2.13
            producer.close()


async def _close_aio_consumer(consumer: Any) -> None:
    """As `_close_consumer`."""
    from confluent_kafka import KafkaException

    with contextlib.suppress(RuntimeError):  # the test has closed it
        if not await consumer.assignment():
            with contextlib.suppress(KafkaException):
                await consumer.poll(0)
        await consumer.close()


async def _close_aio_producer(producer: Any) -> None:
    """As `_close_producer`. Without the first flush, the others wait as long as records may."""
    from confluent_kafka import KafkaException

    with contextlib.suppress(RuntimeError):  # the test has closed it
        if await producer.flush(_CLOSE_S):
            await producer.purge()
        with contextlib.suppress(KafkaException):  # there is none, or it has been fenced
            await producer.abort_transaction(_CLOSE_S)
        await producer.close()
