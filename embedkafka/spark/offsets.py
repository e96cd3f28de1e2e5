"""How far a query has read its topics, and how far it could.

The end of a topic is what Spark's own source would ask for: the high watermark, or the last stable
offset if the source reads committed records only. Either counts transaction markers, and so do the
offsets that Spark commits.

Owner: none; these are functions.
"""

import ast
import json
import re
import threading
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from embedkafka.runtime.clock import REAL_TIME
from embedkafka.runtime.failures import EmbedKafkaError
from embedkafka.runtime.ids import TopicPartition
from embedkafka.wire.protocol.errors import ErrorCode

Offsets = Mapping[TopicPartition, int]
SourceOptions = Mapping[str, str]
"""The options of a Kafka source, with their names in lower case, as Spark compares them."""

_BOOTSTRAP: Final = "kafka.bootstrap.servers"
_ISOLATION: Final = "kafka.isolation.level"
_LEAST_TIMEOUT_S: Final = 0.1
_FIRST_TRY_S: Final = 1.0
"""A leader that has died never answers, and the next one is not asked before this time is up."""
_BETWEEN_TRIES_S: Final = 0.02
_LEADER_MOVED: Final = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    }
)
_LONGEST_OFFSETS: Final = 4_000_000
"""Characters of offsets that are parsed: over 100,000 partitions."""
_SECURITY: Final = ("kafka.sasl.", "kafka.ssl.", "kafka.security.")


def parse_offsets(written: object) -> dict[TopicPartition, int]:
    """Offsets as Spark writes them: `{"orders": {"0": 5}}`; none for other kinds of sources.

    The JVM writes JSON. PySpark's progress holds a mapping, the same JSON, or, from 4.1 on and for
    Spark Connect, Python's `str` of a mapping.
    """
    found = _parse_text(written) if isinstance(written, str) else written
    if not isinstance(found, Mapping):
        return {}
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, partitions in found.items()
        if isinstance(partitions, Mapping)
        for partition, offset in partitions.items()
        if str(partition).isdecimal() and isinstance(offset, int)
    }


def _parse_text(text: str) -> object:
    """None if it is neither JSON nor a literal of Python: a source may write what it likes."""
    if len(text) > _LONGEST_OFFSETS:
        return None
    for parse in (json.loads, ast.literal_eval):
        try:
            return parse(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    return None


def find_missing(
    ends: Offsets, positions: Sequence[Offsets]
) -> dict[TopicPartition, tuple[int | None, int]]:
    """The partitions that some source has not read to the end: its position, and the end.

    `positions` has the offsets of each source of one query. Two of them may read the same topic,
    and each must get to its end. An empty partition needs no source.
    """
    missing: dict[TopicPartition, tuple[int | None, int]] = {}
    for partition, end in ends.items():
        reached = [offsets[partition] for offsets in positions if partition in offsets]
        if end > 0 and min(reached, default=-1) < end:
            missing[partition] = (min(reached, default=None), end)
    return missing


def describe_missing(missing: Mapping[TopicPartition, tuple[int | None, int]]) -> str:
    """One line for the message of a timeout: `orders-0 at 3 of 5`."""
    return ", ".join(
        f"{partition} not read yet, {end} offsets"
        if position is None
        else f"{partition} at {position} of {end}"
        for partition, (position, end) in sorted(missing.items())
    )


def end_offsets(options: SourceOptions, timeout_s: float) -> dict[TopicPartition, int]:
    """The present ends of the partitions that a source with these options reads.

    A topic that does not exist yet has none.
    """
    import confluent_kafka
    from confluent_kafka.admin import AdminClient

    from embedkafka.spark.client_settings import translate_properties

    credentials = {
        name.removeprefix("kafka."): value
        for name, value in options.items()
        if name.startswith(_SECURITY)
    }
    connection = translate_properties(credentials).librdkafka
    is_committed = options.get(_ISOLATION, "read_uncommitted") == "read_committed"
    admin: Any = AdminClient(
        {**connection, "bootstrap.servers": options[_BOOTSTRAP], "log_level": 2}
    )
    try:
        metadata = admin.list_topics(timeout=timeout_s).topics
        known = {name: set(found.partitions) for name, found in metadata.items()}
        chosen = choose_partitions(options, known)
        return ask_ends(admin, chosen, is_committed=is_committed, timeout_s=timeout_s)
    except confluent_kafka.KafkaException as error:
        raise EmbedKafkaError(
            f"cannot ask {options[_BOOTSTRAP]} for the ends of {describe_source(options)}: {error}"
        ) from error


def ask_ends(
    admin: Any, partitions: Collection[TopicPartition], *, is_committed: bool, timeout_s: float
) -> dict[TopicPartition, int]:
    """The present ends of partitions. Any: confluent-kafka's `AdminClient` has no types."""
    from confluent_kafka.admin import OffsetSpec

    latest: Any = OffsetSpec.latest
    return ask_offsets(admin, partitions, latest(), is_committed=is_committed, timeout_s=timeout_s)


def ask_offsets(
    admin: Any,
    partitions: Collection[TopicPartition],
    which: Any,
    *,
    is_committed: bool,
    timeout_s: float,
) -> dict[TopicPartition, int]:
    """One offset of each partition; `which` is an `OffsetSpec`.

    librdkafka asks the leaders that it last heard of, once. A partition whose leader has moved is
    asked for again, as Java's Admin does, until `timeout_s` has passed.

    Raises:
        KafkaException: a broker refused, or did not answer in time.
    """
    import confluent_kafka

    level = confluent_kafka.IsolationLevel
    deadline_ms = REAL_TIME.monotonic_ms() + timeout_s * 1000
    try_s = _FIRST_TRY_S
    found: dict[TopicPartition, int] = {}
    while missing := [each for each in partitions if each not in found]:
        left_s = max((deadline_ms - REAL_TIME.monotonic_ms()) / 1000, _LEAST_TIMEOUT_S)
        futures = admin.list_offsets(
            {confluent_kafka.TopicPartition(*each): which for each in missing},
            isolation_level=level.READ_COMMITTED if is_committed else level.READ_UNCOMMITTED,
            request_timeout=min(left_s, try_s),
        )
        for partition, future in futures.items():
            if (offset := _find_offset(future)) is not None:
                found[TopicPartition(partition.topic, partition.partition)] = offset
        if len(found) < len(partitions):
            if REAL_TIME.monotonic_ms() > deadline_ms:
                raise confluent_kafka.KafkaException(_no_leader_answers(partitions, found))
            threading.Event().wait(_BETWEEN_TRIES_S)
            admin.list_topics(timeout=left_s)  # learns of new leaders
            try_s *= 2
    return found


def _find_offset(future: Any) -> int | None:
    """The answer of a leader; None if another leads now, or if it did not answer in time."""
    import confluent_kafka

    try:
        offset: int = future.result().offset
    except confluent_kafka.KafkaException as error:
        if error.args[0].code() in _LEADER_MOVED:
            return None
        raise
    return offset if offset >= 0 else None  # -1001 without a word: the leader did not answer


def _no_leader_answers(partitions: Collection[TopicPartition], found: Offsets) -> Any:
    """Any: confluent-kafka has no types."""
    from confluent_kafka import KafkaError

    silent = ", ".join(str(each) for each in sorted(set(partitions) - found.keys()))
    return KafkaError(KafkaError._TIMED_OUT, f"no leader answers for {silent}")


def choose_partitions(options: SourceOptions, known: Mapping[str, set[int]]) -> set[TopicPartition]:
    """The partitions that a source reads, of those that the cluster has."""
    if "assign" in options:
        given = json.loads(options["assign"])
        assigned = {TopicPartition(t, p) for t, partitions in given.items() for p in partitions}
        return {each for each in assigned if each.partition in known.get(each.topic, ())}
    if "subscribe" in options:
        topics = {name.strip() for name in options["subscribe"].split(",")} & known.keys()
    else:
        pattern = re.compile(options["subscribepattern"])
        topics = {name for name in known if pattern.fullmatch(name) and name[:2] != "__"}
    return {TopicPartition(name, partition) for name in topics for partition in known[name]}


def describe_source(options: SourceOptions) -> str:
    """What a source reads, as its options say it."""
    for way in ("subscribe", "assign", "subscribepattern"):
        if way in options:
            return options[way]
    return "no topic"
