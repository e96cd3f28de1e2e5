"""Kafka clients of a script: confluent-kafka's, kafka-python's and aiokafka's.

A consumer that waits for records ends its script when the test is over, as a sleep does.

Owner: `membership`. confluent-kafka's producers and consumers are types of C, whose methods cannot
be replaced, so modules get a subclass in their place. Those that have subclasses already keep them.
"""

import importlib
import importlib.util
import inspect
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from embedkafka.spark.scripts.membership import current_script, diverted, diverting

if TYPE_CHECKING:
    from embedkafka.spark.scripts.inside import ScriptInside

Native = Callable[..., Any]  # Any: a method of a client

_KEYS: Final = ("bootstrap.servers", "metadata.broker.list", "bootstrap_servers")
_PYTHON_CLIENTS: Final = (
    ("kafka", "KafkaProducer"),
    ("kafka", "KafkaConsumer"),
    ("kafka", "KafkaAdminClient"),
    ("aiokafka", "AIOKafkaProducer"),
    ("aiokafka", "AIOKafkaConsumer"),
    ("aiokafka.admin", "AIOKafkaAdminClient"),
    ("confluent_kafka.admin", "AdminClient"),
)
_DEFAULT: Final = "localhost:9092"
"""Where a client in Python looks if it gets no address."""


@contextmanager
def client_patches() -> Iterator[None]:
    """Replaces them; see `membership`."""
    with ExitStack() as patches:
        for module, name in _PYTHON_CLIENTS:
            if (client := _find(module, name)) is not None:
                patches.enter_context(diverted(client, "__init__", _make))
        if (consumer := _find("kafka", "KafkaConsumer")) is not None:
            patches.enter_context(diverted(consumer, "poll", _poll_in_ms))
        for name in ("Producer", "Consumer"):
            if (client := _find("confluent_kafka", name)) is not None:
                for derived in list(_derived(client)):  # SerializingProducer and its like
                    patches.enter_context(diverted(derived, "__init__", _make_derived))
                    if name == "Consumer":
                        patches.enter_context(diverted(derived, "poll", _poll))
                        patches.enter_context(diverted(derived, "consume", _consume))
                patches.enter_context(_in_its_place(client, _subclass(client)))
        yield


def _find(module: str, name: str) -> Any:
    """The class, if it is installed. Any: of a package that may not be there."""
    if importlib.util.find_spec(module.partition(".")[0]) is None:
        return None
    with warnings.catch_warnings(), suppress(Exception):  # it may not fit this Python
        warnings.simplefilter("ignore")
        return getattr(importlib.import_module(module), name, None)
    return None


def _make(script: "ScriptInside", native: Native, client: Any, *args: Any, **named: Any) -> None:
    has_settings = any(isinstance(each, dict) for each in args)  # topics are arguments too
    if not has_settings and not any(key in named for key in _KEYS):
        named["bootstrap_servers"] = _DEFAULT
    args, named = _redirected(script, args, named)
    native(client, *args, **named)
    script.on_client(client)


def _make_derived(
    script: "ScriptInside", native: Native, client: Any, *args: Any, **named: Any
) -> None:
    args, named = _redirected(script, args, named)
    native(client, *args, **named)
    script.on_client(client)


def _poll(script: "ScriptInside", native: Native, consumer: Any, timeout: float | None = -1) -> Any:
    return script.await_records(lambda left_s: native(consumer, left_s), _seconds(timeout))


def _consume(
    script: "ScriptInside",
    native: Native,
    consumer: Any,
    num_messages: int = 1,
    timeout: float | None = -1,
) -> Any:
    return script.await_records(
        lambda left_s: native(consumer, num_messages, left_s), _seconds(timeout)
    )


def _seconds(timeout: float | None) -> float:
    return -1 if timeout is None else timeout


def _poll_in_ms(
    script: "ScriptInside", native: Native, consumer: Any, timeout_ms: float = 0, **more: Any
) -> Any:
    return script.await_records(
        lambda left_s: native(consumer, timeout_ms=left_s * 1000, **more), timeout_ms / 1000
    )


def _derived(base: Any) -> Iterator[Any]:
    for each in base.__subclasses__():
        yield each
        yield from _derived(each)


def _subclass(base: Any) -> Any:
    class Client(base):  # type: ignore[misc]  # Any
        def __init__(self, *args: Any, **named: Any) -> None:
            script = current_script()
            if script is not None:
                args, named = _redirected(script, args, named)
            super().__init__(*args, **named)
            if script is not None:
                script.on_client(self)

    if hasattr(base, "consume"):
        Client.poll = diverting(base.poll, _poll)
        Client.consume = diverting(base.consume, _consume)
    Client.__name__, Client.__qualname__ = base.__name__, base.__qualname__
    Client.__module__ = base.__module__
    return Client


def _redirected(
    script: "ScriptInside", args: tuple[Any, ...], named: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments, and a configuration among them, with other addresses."""
    moved = tuple(_moved(script, each) if isinstance(each, dict) else each for each in args)
    further = {k: _moved(script, v) if isinstance(v, dict) else v for k, v in named.items()}
    return moved, _moved(script, further)


def _moved(script: "ScriptInside", settings: dict[str, Any]) -> dict[str, Any]:
    moved = dict(settings)
    for key in _KEYS:
        if (given := moved.get(key)) is not None:
            servers = given if isinstance(given, str) else ",".join(map(str, given))
            moved[key] = script.redirections.address(key, servers)
    return moved


def close_client(client: Any) -> None:
    """Without what it has not sent, which is lost with a process too. Any: of any package."""
    with suppress(Exception):  # it may be closed
        if hasattr(client, "purge"):
            client.purge()
        if not hasattr(client, "close"):
            client.__exit__(None, None, None)
        elif not inspect.iscoroutinefunction(client.close):
            client.close()


@contextmanager
def _in_its_place(old: Any, new: Any) -> Iterator[None]:
    _swap(old, new)
    try:
        yield
    finally:
        _swap(new, old)  # also where it was imported since


def _swap(old: Any, new: Any) -> None:
    for module in list(sys.modules.values()):
        with suppress(Exception):  # sys.modules holds other things too
            for name in [name for name, value in vars(module).items() if value is old]:
                setattr(module, name, new)
