"""`embedkafka topics | groups | tail | produce`: a small client for people, for any cluster.

Owner: the calling thread.
Not here: the arguments (`commands`).
"""

import base64
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from embedkafka.cluster.clients.client_view import ClientView
from embedkafka.cluster.clients.clients import Clients
from embedkafka.cluster.clients.decoding import Decode, reason_of, show_data
from embedkafka.runtime.arguments import require_text
from embedkafka.runtime.failures import ConfigError, EmbedKafkaError
from embedkafka.runtime.ids import TopicPartition
from embedkafka.runtime.properties import read_properties
from embedkafka.runtime.shown_values import find_text, show_value

if TYPE_CHECKING:
    from embedkafka.spark.client_settings import ClientSettings

_VARIABLES: Final = ("EMBEDKAFKA_BOOTSTRAP", "KAFKA_BOOTSTRAP_SERVERS")
_POLL_S: Final = 0.5
_BATCH: Final = 1000
_SHOWN: Final = 200  # characters of a line in an error


class Reach:
    """How to reach a cluster: its addresses, and the settings of a client that may."""

    def __init__(self, bootstrap: str | None, client_config: Path | None) -> None:
        self.settings = _settings(client_config)
        named = None if self.settings is None else self.settings.bootstrap_servers
        self.bootstrap_servers = require_bootstrap(bootstrap, named)

    def view(self) -> ClientView:
        return ClientView(self.bootstrap_servers, self.settings)


def require_bootstrap(*given: str | None) -> str:
    """The first address that is given, or else that of the environment."""
    variables = map(os.environ.get, _VARIABLES)
    found = next(filter(None, (*given, *variables)), None)
    if not found:
        raise ConfigError(
            "which cluster? Say --bootstrap host:port,..., or set "
            f"{' or '.join(_VARIABLES)}, as `embedkafka up` does for its command"
        )
    return require_text("--bootstrap", found, refusal=ConfigError)


def topic_lines(reach: Reach, topic: str | None) -> Iterator[str]:
    """A table of topics, or of one topic's partitions."""
    view = reach.view()
    statuses = view.statuses(topic)
    if topic is not None:
        ends = view.ends(TopicPartition(each.topic, each.partition) for each in statuses)
        rows = [
            (
                str(each.partition),
                "none" if each.leader is None else str(each.leader),
                ",".join(map(str, each.replicas)),
                ",".join(map(str, each.isr)),
                str(ends.get(TopicPartition(each.topic, each.partition), "-")),
            )
            for each in statuses
        ]
        return table([("partition", "leader", "replicas", "isr", "end"), *rows])
    counted: dict[str, list[int]] = {}
    for each in statuses:
        counted.setdefault(each.topic, []).append(len(each.replicas))
    rows2 = [(name, str(len(counts)), str(counts[0])) for name, counts in counted.items()]
    return table([("topic", "partitions", "replicas"), *rows2])


def group_lines(reach: Reach, group: str | None) -> Iterator[str]:
    """A table of groups, or of one group's partitions and the members that have them."""
    view = reach.view()
    view.metadata()  # says at once if no broker answers
    if group is None:
        found = view.groups()
        rows = [
            (each.group, each.state, str(len(each.members)), str(each.total_lag)) for each in found
        ]
        return table([("group", "state", "members", "lag"), *rows])
    one = view.group(group)
    if one.state == "Dead":
        raise EmbedKafkaError(f"there is no group {group!r}")
    owners = {each: member.client_id for member in one.members for each in member.partitions}
    rows = [
        (
            str(each),
            str(one.committed.get(each, "-")),
            str(one.lag.get(each, "-")),
            owners.get(each, "-"),
        )
        for each in sorted({*one.committed, *owners})
    ]
    return table([("partition", "committed", "lag", "client"), *rows])


def tail(
    reach: Reach,
    topic: str,
    *,
    from_start: bool,
    count: int | None,
    as_json: bool,
    decode: Decode | None = None,
) -> Iterator[str]:
    """A line for each record as it comes, until there were `count`; the group is never joined."""
    from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer
    from confluent_kafka import TopicPartition as Position

    view = reach.view()
    partitions = [each.partition for each in view.statuses(topic)]
    consumer: Any = Consumer(
        {
            **view.client_config,
            "client.id": "embedkafka-tail",
            "group.id": "embedkafka-tail",  # required by the client, never joined
            "enable.auto.commit": False,
            "allow.auto.create.topics": False,
        }
    )
    start = OFFSET_BEGINNING if from_start else OFFSET_END
    consumer.assign([Position(topic, number, start) for number in partitions])
    left = count
    try:
        while left is None or left > 0:
            wanted = _BATCH if left is None else min(left, _BATCH)
            for message in consumer.consume(num_messages=wanted, timeout=_POLL_S):
                if message.error():
                    raise EmbedKafkaError(f"cannot read topic {topic}: {message.error()}")
                left = None if left is None else left - 1
                yield record_line(message, as_json=as_json, decode=decode)
    finally:
        consumer.close()


def record_line(message: Any, *, as_json: bool, decode: Decode | None = None) -> str:
    """A record in a line. Any: of confluent-kafka."""
    if as_json:
        return json.dumps(
            {
                "topic": message.topic(),
                "partition": message.partition(),
                "offset": message.offset(),
                "timestamp_ms": message.timestamp()[1],
                "key": _plain(message.key()),
                "value": _plain(message.value(), decode),
                "headers": [[name, _plain(held)] for name, held in message.headers() or ()],
            },
            default=show_value,
        )
    key, value = message.key(), message.value()
    return "\t".join(
        [
            f"{message.partition()}:{message.offset()}",
            "-" if key is None else _shown(key),
            "(tombstone)" if value is None else _shown(value, decode),
        ]
    )


def produce(
    reach: Reach, topic: str, values: Sequence[str], *, separator: str | None
) -> Iterator[str]:
    """Writes each value, or each line of stdin; says where the records are.

    Bytes that are not UTF-8 are written as they are.
    """
    reach.view().statuses(topic)  # raises if there is no such topic
    between = None if separator is None else os.fsencode(separator)
    if between == b"":
        raise ConfigError("--key-separator must be text that is not empty")
    clients = Clients(reach.bootstrap_servers, settings=reach.settings)
    try:
        for number, line in enumerate(map(os.fsencode, values) if values else _lines(), 1):
            key, value = (None, line) if between is None else _split(line, between, number)
            sent = clients.send(topic, value, key=key)
            yield f"{topic}-{sent.partition} at {sent.offset}"
    finally:
        clients.close()


def table(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Rows with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()


def _lines() -> Iterable[bytes]:
    lines = () if sys.stdin is None else sys.stdin.buffer  # None: it was closed before
    return (line.removesuffix(b"\n").removesuffix(b"\r") for line in lines)


def _split(line: bytes, separator: bytes, number: int) -> tuple[bytes, bytes]:
    """Key and value. Kafka's console producer refuses a line without the separator, too."""
    key, found, value = line.partition(separator)
    if not found:
        raise ConfigError(
            f"no key separator in line {number}: {show_data(line, longest=_SHOWN)}. The lines "
            "before it are written"
        )
    return key, value


def _shown(data: bytes, decode: Decode | None = None) -> str:
    """For people. Text stays as it is."""
    text = find_text(data) if decode is None else None
    return show_data(data, decode) if text is None else text


def _plain(data: bytes | None, decode: Decode | None = None) -> object:
    """For programs: whatever JSON can hold, and bytes as `embedkafka dump-log --json` has them."""
    if data is None:
        return None
    error: dict[str, str] = {}
    if decode is not None:
        try:
            value = decode(data)
            json.dumps(value, default=show_value)  # raises if it has keys that JSON does not
            return value
        except Exception as failure:  # of the user's function
            error = {"error": reason_of(failure)}
    text = find_text(data)
    if text is not None and not error:
        return text
    return {"base64": base64.b64encode(data).decode(), **error}


def _settings(client_config: Path | None) -> "ClientSettings | None":
    if client_config is None:
        return None
    from embedkafka.spark.client_settings import translate_properties

    try:
        given = read_properties(client_config)
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read --client-config {client_config}: {error}") from error
    return translate_properties(given)
