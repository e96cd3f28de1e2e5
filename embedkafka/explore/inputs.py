"""Inputs: the records that a test gives, as records of a topic.

A record keeps its order with the others of its key: those share a partition, and a reader sees them
in order. Records without a key take the partitions in turn, and keep their order within each.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from embedkafka.cluster.clients.decoding import Decode, Decoder, require_decoder, show_data
from embedkafka.explore.plain_rows import plain_row
from embedkafka.explore.schedule import Arrival
from embedkafka.explore.verdict import canonical
from embedkafka.runtime.arguments import require_int, require_number, shown
from embedkafka.runtime.failures import ConfigError
from embedkafka.runtime.values import dataclass

Field = str | Callable[[Any], object]
"""A field of a record by name, or a function of the record."""

_DRAWN = 20


@dataclass(frozen=True, slots=True)
class Input:
    """The records of one input topic, and what a schedule may do with them.

        Input(orders, key="sku", event_time="at", lateness_s=600)

    Args:
        records: a list of mappings, rows, text or bytes; the path of a file with one JSON value
            per line; or a hypothesis strategy for such a list. Mappings and rows are written as
            JSON. A pair is a key and a value.
        key: the field that becomes the record's key, or a function of the record.
        event_time: the field with the event time, or a function of the record: a `datetime`, ISO
            text, or seconds since 1970. It also becomes the record's timestamp.
        lateness_s: a record may arrive after newer ones, also of the same key, by less than so many
            seconds of event time: at most the delay of the job's watermark. It needs `event_time`.
        partitions: how many partitions the topic has. Records without a key take them in turn, and
            keep no order across them.
        resends: whether the producer may write a record twice, also after newer ones of its key: it
            retries and is not idempotent, or it restarts from an earlier position.
        decode: decodes records that are bytes, for the names of fields and for messages; as for
            `kafka.topic`.
    """

    records: object
    key: Field | None = None
    event_time: Field | None = None
    lateness_s: float | None = None
    partitions: int = 1
    resends: bool = False
    decode: Decoder | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InputRecord:
    """One record as it is sent."""

    key: bytes | None
    value: bytes | None
    time_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """An input that is ready to be sent: `given[i]` is what the test wrote for `records[i]`."""

    name: str
    given: tuple[object, ...]
    records: tuple[InputRecord, ...]
    lateness_s: float | None
    partitions: int
    resends: bool
    decode: Decode | None = None

    def show(self, nth: int) -> str:
        """The record as a message shows it."""
        given, record = self.given[nth], self.records[nth]
        if self.decode is None:
            return canonical(given)
        key = f"key {show_data(record.key)}, " if isinstance(given, tuple) else ""
        return key + show_data(record.value, self.decode)


def read_inputs(inputs: Mapping[str, object], *, seed: int) -> dict[str, Feed]:
    """The inputs with their records; a strategy draws what `seed` says.

    Raises:
        ConfigError: there are none, or one of them cannot be used; the message says what is wrong.
    """
    if not isinstance(inputs, Mapping) or not inputs:
        raise ConfigError(
            f'inputs must be a mapping such as {{"orders": [{{"sku": "a"}}]}}, got {shown(inputs)}'
        )
    return {name: _feed(name, given, seed) for name, given in inputs.items()}


def _feed(name: str, given: object, seed: int) -> Feed:
    chosen = given if isinstance(given, Input) else Input(given)
    require_int(f"partitions of {name}", chosen.partitions, least=1, refusal=ConfigError)
    if chosen.lateness_s is not None:
        require_number(f"lateness_s of {name}", chosen.lateness_s, refusal=ConfigError)
        if chosen.event_time is None:
            raise ConfigError(f"{name} has lateness_s and no event_time: name the field it is in")
    items = _items(name, chosen.records, seed)
    decode = require_decoder(chosen.decode)
    return Feed(
        name=name,
        given=tuple(items),
        records=tuple(_record(name, item, chosen, decode) for item in items),
        lateness_s=chosen.lateness_s,
        partitions=chosen.partitions,
        resends=chosen.resends,
        decode=decode,
    )


def _items(name: str, records: object, seed: int) -> list[object]:
    if isinstance(records, Path):
        return [json.loads(line) for line in records.read_text().splitlines() if line.strip()]
    if _is_strategy(records):
        records = _drawn(records, seed)
    if isinstance(records, str | bytes | Mapping) or not isinstance(records, Iterable):
        raise ConfigError(
            f"the records of {name} must be a list, a Path to JSON lines or a hypothesis strategy "
            f"for a list, got {shown(records)}"
        )
    return [plain_row(item) for item in records]


def _is_strategy(records: object) -> bool:
    return type(records).__module__.partition(".")[0] == "hypothesis"


def _drawn(strategy: Any, seed: int) -> object:
    """An example of the strategy, the same for the same seed. Any: hypothesis is optional.

    The first examples of hypothesis are the simplest, often an empty list, so a later one is taken.
    """
    import hypothesis

    drawn: list[object] = []

    def keep(records: object) -> None:
        drawn.append(records)

    settings: Any = hypothesis.settings(  # decorators, which the checker cannot follow
        max_examples=_DRAWN,
        phases=[hypothesis.Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    seeded: Any = hypothesis.seed(seed)
    given: Any = hypothesis.given(strategy)
    seeded(settings(given(keep)))()
    return drawn[-1]


def _record(name: str, item: object, chosen: Input, decode: Decode | None) -> InputRecord:
    key: object
    value: object
    key, value = item if isinstance(item, tuple) and len(item) == 2 else (None, item)
    encoded = _encoded(value)
    if decode is not None and isinstance(value, bytes):
        value = _decoded(name, value, decode)
    if chosen.key is not None:
        key = _field(name, "key", chosen.key, value)
    time_s = None
    if chosen.event_time is not None:
        time_s = _seconds(name, _field(name, "event_time", chosen.event_time, value))
    return InputRecord(key=_encoded(key), value=encoded, time_s=time_s)


def _decoded(name: str, value: bytes, decode: Decode) -> object:
    try:
        return decode(value)
    except Exception as error:  # of the user's function
        raise ConfigError(f"{name} has a record {show_data(value, decode)}") from error


def _field(name: str, what: str, field: Field, item: object) -> object:
    if callable(field):
        return field(item)
    if isinstance(item, str | bytes):
        item = _parsed(item)
    if not isinstance(item, Mapping) or field not in item:
        raise ConfigError(f"{name} has a record without the field {field!r} for {what}: {item!r}")
    return item[field]


def _parsed(text: str | bytes) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _encoded(value: object) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    return json.dumps(value, default=_as_json).encode()


def _as_json(value: object) -> object:
    return value.isoformat() if isinstance(value, date) else str(value)


def _seconds(name: str, value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise ConfigError(f"{name} has an event time that is not ISO text: {value!r}") from None
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    raise ConfigError(f"{name} has an event time that is no time: {value!r}")


def given_records(
    feeds: Mapping[str, Feed], arrivals: Collection[Arrival]
) -> dict[str, list[object]]:
    """What an invariant compares with: the records that arrive, in the order of each input."""
    return {
        name: [feed.given[arrival.nth] for arrival in sorted(arrivals) if arrival.source == name]
        for name, feed in feeds.items()
    }
