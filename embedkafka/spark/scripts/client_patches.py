"""Kafka clients of a script: confluent-kafka's, kafka-python's and aiokafka's.

Owner: `membership`. confluent-kafka's producers and consumers are types of C, whose constructor
cannot be replaced, so modules get a subclass in their place.
"""

import importlib
import importlib.util
import sys
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from embedkafka.spark.scripts.membership import current_script, diverted

if TYPE_CHECKING:
    from embedkafka.spark.scripts.inside import ScriptInside

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
        for name in ("Producer", "Consumer"):
            if (client := _find("confluent_kafka", name)) is not None:
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


def _make(script: "ScriptInside", native: Any, client: Any, *args: Any, **named: Any) -> None:
    if not args and not any(key in named for key in _KEYS):
        named["bootstrap_servers"] = _DEFAULT
    args, named = _redirected(script, args, named)
    native(client, *args, **named)


def _subclass(base: Any) -> Any:
    class Client(base):  # type: ignore[misc]  # Any
        def __init__(self, *args: Any, **named: Any) -> None:
            script = current_script()
            if script is not None:
                args, named = _redirected(script, args, named)
            super().__init__(*args, **named)

    Client.__name__, Client.__qualname__ = base.__name__, base.__qualname__
    Client.__module__ = base.__module__
    return Client


def _redirected(
    script: "ScriptInside", args: tuple[Any, ...], named: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments, and a configuration among them, with other addresses."""
    script.on_client()
    moved = tuple(_moved(script, each) if isinstance(each, dict) else each for each in args)
    return moved, _moved(script, named)


def _moved(script: "ScriptInside", settings: dict[str, Any]) -> dict[str, Any]:
    moved = dict(settings)
    for key in _KEYS:
        if (given := moved.get(key)) is not None:
            servers = given if isinstance(given, str) else ",".join(map(str, given))
            moved[key] = script.redirections.address(key, servers)
    return moved


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
