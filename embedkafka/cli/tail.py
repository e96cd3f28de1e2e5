"""`embedkafka tail`: the records of a topic as they come."""

import argparse
import base64
import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from embedkafka.cli.options import add_reach_options, whole_number
from embedkafka.cli.output import print_lines
from embedkafka.cli.reach import reach_of
from embedkafka.cluster.clients.decoding import Decode, reason_of, show_data
from embedkafka.runtime.failures import ConfigError, EmbedKafkaError
from embedkafka.runtime.shown_values import find_text, show_value

if TYPE_CHECKING:
    from embedkafka.cli.options import Subcommands
    from embedkafka.cluster.clients.client_view import ClientView
_POLL_S: Final = 0.5

_BATCH: Final = 1000


def add(commands: "Subcommands") -> None:
    parser = commands.add_parser(
        "tail",
        help="print the records of a topic as they come",
        description="Prints partition and offset, key and value of each record, until Ctrl-C.",
    )
    parser.add_argument("topic", metavar="TOPIC", help="the topic to read")
    start = parser.add_mutually_exclusive_group()
    start.add_argument(
        "--from-start",
        "--from-beginning",
        action="store_true",
        help="begin with the first record, not the next one",
    )
    start.add_argument("--offset", type=whole_number, metavar="N", help="begin with this offset")
    parser.add_argument(
        "--partition", type=whole_number, metavar="N", help="read only this partition"
    )
    parser.add_argument("--headers", action="store_true", help="print headers after the value")
    parser.add_argument(
        "--count", type=whole_number, metavar="N", help="end after this many records"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    parser.add_argument(
        "--decode",
        metavar="MODULE:FUNCTION|FILE.avsc",
        help="decode values with a function of their bytes, or with an Avro schema",
    )
    add_reach_options(parser)
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    from embedkafka.cli.decode_option import load_decoder

    return print_lines(
        lambda: _lines(
            reach_of(parsed).view(),
            parsed,
            None if parsed.decode is None else load_decoder(parsed.decode),
        )
    )


def _lines(view: "ClientView", parsed: argparse.Namespace, decode: Decode | None) -> Iterator[str]:
    """A line for each record as it comes, until there were enough; the group is never joined."""
    from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer
    from confluent_kafka import TopicPartition as Position

    topic, only = parsed.topic, parsed.partition
    partitions = [each.partition for each in view.statuses(topic)]
    if only is not None and only not in partitions:
        raise ConfigError(f"topic {topic} has {len(partitions)} partitions, and none is {only}")
    consumer: Any = Consumer(
        {
            **view.client_config,
            "client.id": "embedkafka-tail",
            "group.id": "embedkafka-tail",  # required by the client, never joined
            "enable.auto.commit": False,
            "allow.auto.create.topics": False,
            "auto.offset.reset": "latest" if parsed.offset is None else "error",
        }
    )
    start = OFFSET_BEGINNING if parsed.from_start else OFFSET_END
    start = start if parsed.offset is None else parsed.offset
    consumer.assign([Position(topic, n, start) for n in partitions if only in (None, n)])
    left = parsed.count
    try:
        while left is None or left > 0:
            wanted = _BATCH if left is None else min(left, _BATCH)
            for message in consumer.consume(num_messages=wanted, timeout=_POLL_S):
                if message.error():
                    raise EmbedKafkaError(f"cannot read topic {topic}: {message.error()}")
                left = None if left is None else left - 1
                yield _record_line(message, parsed, decode)
    finally:
        consumer.close()


def _record_line(message: Any, parsed: argparse.Namespace, decode: Decode | None) -> str:
    """A record in a line. Any: of confluent-kafka."""
    if parsed.json:
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
            *([_header_text(message.headers() or ())] if parsed.headers else []),
        ]
    )


def _header_text(headers: Iterable[tuple[str, bytes | None]]) -> str:
    return ",".join(f"{name}={'' if held is None else _shown(held)}" for name, held in headers)


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
