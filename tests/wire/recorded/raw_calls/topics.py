"""Topics, their partitions and replicas, and log directories."""

from collections.abc import Mapping
from typing import Final

from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.wire_types import ZERO_UUID
from tests.wire.plain_messages import Plain
from tests.wire.recorded.raw_calls.table import ID, LONG, MISSING, NO_ID, TOPIC, Call, call

NEW: Final = "raw-new"


def _metadata(*topics: Plain, versions: range | None = None, **more: Plain) -> Call:
    fields = {"topics": list(topics), "allow_auto_topic_creation": False, **more}
    return call(ApiKey.METADATA, versions or range(4, 14), **fields)


METADATA: Final[Mapping[str, Call]] = {
    "metadata: known": _metadata({"name": TOPIC}),
    "metadata: operations": _metadata(
        {"name": TOPIC}, {"name": MISSING}, include_topic_authorized_operations=True
    ),
    "metadata: operations of bad names": _metadata(
        {"name": "a b"}, {"name": ""}, include_topic_authorized_operations=True
    ),
    "metadata: cluster operations": _metadata(include_cluster_authorized_operations=True),
    "metadata: missing": _metadata({"name": MISSING}),
    "metadata: bad names": _metadata({"name": ""}, {"name": "a b"}, {"name": "."}),
    "metadata: long name": _metadata({"name": LONG}),
    "metadata: twice": _metadata({"name": TOPIC}, {"name": TOPIC}),
    "metadata: by id": _metadata({"name": None, "topic_id": ID}, versions=range(10, 14)),
    "metadata: by unknown id": _metadata({"name": None, "topic_id": NO_ID}, versions=range(10, 14)),
    "metadata: by unknown id and known": _metadata(
        {"name": None, "topic_id": NO_ID}, {"name": TOPIC}, versions=range(10, 14)
    ),
    "metadata: by name and id": _metadata({"name": TOPIC, "topic_id": ID}, versions=range(10, 14)),
    "metadata: by name and unknown id": _metadata(
        {"name": TOPIC, "topic_id": NO_ID}, versions=range(10, 14)
    ),
    "metadata: by nothing": _metadata({"name": None}, versions=range(10, 14)),
    "metadata: ids and names": _metadata(
        {"name": None, "topic_id": ID}, {"name": TOPIC}, {"name": MISSING}, versions=range(12, 14)
    ),
    "metadata: id twice": _metadata(
        {"name": None, "topic_id": ID}, {"name": None, "topic_id": ID}, versions=range(12, 14)
    ),
    "metadata: missing, not created": _metadata(
        {"name": "raw bad name"}, allow_auto_topic_creation=True
    ),
}


def _pages(*names: str, limit: int = 2000, cursor: Plain = None) -> Call:
    return call(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        topics=[{"name": name} for name in names],
        response_partition_limit=limit,
        cursor=cursor,
    )


PAGES: Final[Mapping[str, Call]] = {
    "pages: known": _pages(TOPIC),
    "pages: one by one": _pages(TOPIC, limit=1),
    "pages: no room": _pages(TOPIC, limit=0),
    "pages: negative room": _pages(TOPIC, limit=-1),
    "pages: bad names": _pages(MISSING, "a b", "..", LONG),
    "pages: nameless": _pages(MISSING, ""),
    "pages: twice": _pages(TOPIC, TOPIC),
    "pages: cursor": _pages(TOPIC, cursor={"topic_name": TOPIC, "partition_index": 1}),
    "pages: cursor beyond": _pages(TOPIC, cursor={"topic_name": TOPIC, "partition_index": 9}),
    "pages: cursor elsewhere": _pages(TOPIC, cursor={"topic_name": "zzz", "partition_index": 0}),
    "pages: cursor before": _pages(TOPIC, cursor={"topic_name": "a", "partition_index": 0}),
    "pages: cursor negative": _pages(TOPIC, cursor={"topic_name": TOPIC, "partition_index": -1}),
    "pages: cursor of a missing topic": _pages(
        MISSING, TOPIC, cursor={"topic_name": MISSING, "partition_index": 0}
    ),
}


def _create(*topics: Plain, timeout_ms: int = 10_000, versions: range | None = None) -> Call:
    return call(
        ApiKey.CREATE_TOPICS,
        versions or range(2, 8),
        topics=list(topics),
        timeout_ms=timeout_ms,
        validate_only=True,
    )


def _new(
    name: str = NEW,
    *,
    partitions: int = 1,
    replication: int = 1,
    placed: tuple[tuple[int, list[int]], ...] = (),
    config: Mapping[str, str | None] | None = None,
) -> Plain:
    return {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": replication,
        "assignments": [{"partition_index": index, "broker_ids": ids} for index, ids in placed],
        "configs": [{"name": key, "value": value} for key, value in (config or {}).items()],
    }


def _placed(*placed: tuple[int, list[int]], partitions: int = -1, replication: int = -1) -> Plain:
    return _new(partitions=partitions, replication=replication, placed=placed)


CREATE: Final[Mapping[str, Call]] = {
    "create: defaults": _create(_new(partitions=-1, replication=-1)),
    "create: -1 before defaults": _create(
        _new(partitions=-1, replication=-1), versions=range(2, 4)
    ),
    "create: two": _create(_new("raw-a"), _new("raw-b", partitions=2)),
    "create: partitions -2": _create(_new(partitions=-2)),
    "create: partitions 0": _create(_new(partitions=0)),
    "create: neither partitions nor replicas": _create(_new(partitions=0, replication=0)),
    "create: replication 0": _create(_new(replication=0)),
    "create: replication -2": _create(_new(replication=-2)),
    "create: replication 2": _create(_new(replication=2)),
    "create: exists": _create(_new(TOPIC)),
    "create: exists and is invalid": _create(_new(TOPIC, partitions=0)),
    "create: collides": _create(_new("raw_orders.x"), _new("raw.orders_x")),
    "create: internal": _create(_new("__consumer_offsets"), _new("__cluster_metadata")),
    "create: bad names": _create(_new(""), _new("."), _new(".."), _new("a b"), _new(LONG)),
    "create: more bad names": _create(_new("a/b"), _new("a:b"), _new("ä")),
    "create: longest name": _create(_new("y" * 249)),
    "create: twice": _create(_new(), _new(partitions=2)),
    "create: nothing": _create(),
    "create: no time": _create(_new(), timeout_ms=-1),
    "create: placed": _create(_placed((0, [1]))),
    "create: placed with counts": _create(_placed((0, [1]), partitions=1, replication=1)),
    "create: placed with partitions": _create(_placed((0, [1]), partitions=1)),
    "create: placed with replication": _create(_placed((0, [1]), replication=1)),
    "create: placed twice": _create(_placed((0, [1]), (0, [1]))),
    "create: placed with a gap": _create(_placed((0, [1]), (2, [1]))),
    "create: placed from 1": _create(_placed((1, [1]))),
    "create: placed on no broker": _create(_placed((0, []))),
    "create: placed on an unknown broker": _create(_placed((0, [7]))),
    "create: placed on a negative broker": _create(_placed((0, [-1]))),
    "create: placed on a broker twice": _create(_placed((0, [1, 1]))),
    "create: placed unevenly": _create(_placed((0, [1]), (1, [1, 7]))),
    "create: placed at -1": _create(_placed((-1, [1]))),
    "create: null config": _create(_new(config={"retention.ms": None})),
    "create: empty config": _create(_new(config={"retention.ms": ""})),
    "create: nameless config": _create(_new(config={"": "1"})),
    "create: long config": _create(_new(config={"x" * 300: "1"})),
    "create: 10,000 partitions": _create(_new(partitions=10_000)),
    "create: 10,001 partitions": _create(_new(partitions=10_001)),
    "create: 2,147,483,647 partitions": _create(_new(partitions=2**31 - 1)),
    "create: 10,001 partitions and fewer than none": _create(
        _new("raw-a", partitions=-5), _new("raw-b", partitions=10_001)
    ),
    "create: 10,001 partitions placed on an unknown broker": _create(
        _placed(*((index, [77]) for index in range(10_001))), versions=range(7, 8)
    ),
    "create: 10,001 partitions together": _create(
        _new("raw-a", partitions=5_000), _new("raw-b", partitions=5_001)
    ),
    **{
        f"create: {key}={value}": _create(_new(config={key: value}), versions=range(4, 5))
        for key, value in (
            ("cleanup.policy", ""),
            ("cleanup.policy", "compact,delete"),
            ("cleanup.policy", "compact, delete"),
            ("cleanup.policy", "none"),
            ("cleanup.policy", "delete,delete"),
            ("compression.type", "GZIP"),
            ("compression.gzip.level", "0"),
            ("compression.gzip.level", "-1"),
            ("compression.lz4.level", "18"),
            ("compression.zstd.level", "99"),
            ("delete.retention.ms", "-1"),
            ("file.delete.delay.ms", "-1"),
            ("flush.messages", "0"),
            ("flush.ms", "-1"),
            ("follower.replication.throttled.replicas", "0:1"),
            ("follower.replication.throttled.replicas", "x"),
            ("follower.replication.throttled.replicas", "*"),
            ("index.interval.bytes", "-1"),
            ("leader.replication.throttled.replicas", "0:1,1:x"),
            ("leader.replication.throttled.replicas", ""),
            ("local.retention.bytes", "-3"),
            ("local.retention.ms", "-3"),
            ("max.compaction.lag.ms", "0"),
            ("max.message.bytes", "-1"),
            ("max.message.bytes", "2147483648"),
            ("message.downconversion.enable", "true"),
            ("message.format.version", "3.0"),
            ("message.timestamp.after.max.ms", "-1"),
            ("message.timestamp.before.max.ms", "-1"),
            ("message.timestamp.difference.max.ms", "1"),
            ("message.timestamp.type", "createtime"),
            ("min.cleanable.dirty.ratio", "-0.1"),
            ("min.cleanable.dirty.ratio", "nan"),
            ("min.cleanable.dirty.ratio", "0.5f"),
            ("min.cleanable.dirty.ratio", "0_5"),
            ("min.cleanable.dirty.ratio", "Infinity"),
            ("min.compaction.lag.ms", "-1"),
            ("min.insync.replicas", "9"),
            ("preallocate", "TRUE"),
            ("preallocate", "1"),
            ("remote.log.copy.disable", "true"),
            ("remote.log.delete.on.disable", "true"),
            ("remote.storage.enable", "false"),
            ("retention.bytes", "-2"),
            ("retention.bytes", "1e3"),
            ("retention.ms", "-2"),
            ("retention.ms", " 5 "),
            ("retention.ms", "+5"),
            ("retention.ms", "1_000"),
            ("retention.ms", "9223372036854775808"),
            ("segment.bytes", "2147483648"),
            ("segment.index.bytes", "3"),
            ("segment.jitter.ms", "-1"),
            ("segment.ms", "0"),
            ("unclean.leader.election.enable", "yes"),
        )
    },
}


def _delete(*topics: Plain, timeout_ms: int = 9000) -> Call:
    asked = [{"topic_id": ZERO_UUID, **topic} for topic in topics]
    return call(ApiKey.DELETE_TOPICS, range(6, 7), topics=asked, timeout_ms=timeout_ms)


def _delete_names(*names: str) -> Call:
    return call(ApiKey.DELETE_TOPICS, range(1, 6), topic_names=list(names), timeout_ms=9000)


DELETE: Final[Mapping[str, Call]] = {
    "delete: missing names": _delete_names(MISSING, "", "a b", LONG),
    "delete: names twice": _delete_names(MISSING, MISSING),
    "delete: no names": _delete_names(),
    "delete: missing": _delete({"name": MISSING}, {"name": "a b"}),
    "delete: missing id": _delete({"name": None, "topic_id": NO_ID}),
    "delete: nothing": _delete(),
    "delete: neither": _delete({"name": None}),
    "delete: both": _delete({"name": TOPIC, "topic_id": ID}),
    "delete: by name and by id": _delete({"name": TOPIC}, {"name": None, "topic_id": ID}),
    "delete: id twice": _delete({"name": None, "topic_id": ID}, {"name": None, "topic_id": ID}),
    "delete: name twice": _delete({"name": TOPIC}, {"name": TOPIC}),
    "delete: unknown id twice": _delete(
        {"name": None, "topic_id": NO_ID}, {"name": None, "topic_id": NO_ID}
    ),
    "delete: neither twice": _delete({"name": None}, {"name": None}),
    "delete: no time": _delete({"name": TOPIC}, {"name": MISSING}, timeout_ms=0),
    "delete: metadata": _delete({"name": "__cluster_metadata"}),
}


def _grow(*topics: Plain, timeout_ms: int = 9000) -> Call:
    return call(
        ApiKey.CREATE_PARTITIONS, topics=list(topics), timeout_ms=timeout_ms, validate_only=True
    )


def _to(count: int, *placed: list[int], name: str = TOPIC, manual: bool | None = None) -> Plain:
    assignments = [{"broker_ids": ids} for ids in placed]
    given = bool(placed) if manual is None else manual
    return {"name": name, "count": count, "assignments": assignments if given else None}


GROW: Final[Mapping[str, Call]] = {
    "grow: to 3": _grow(_to(3)),
    "grow: to 2": _grow(_to(2)),
    "grow: to 1": _grow(_to(1)),
    "grow: to 0": _grow(_to(0)),
    "grow: to -1": _grow(_to(-1)),
    "grow: to 20,000": _grow(_to(20_000)),
    "grow: missing": _grow(_to(3, name=MISSING), _to(3, name="a b"), _to(3, name="")),
    "grow: twice": _grow(_to(3), _to(4)),
    "grow: nothing": _grow(),
    "grow: internal": _grow(_to(5, name="__consumer_offsets")),
    "grow: placed": _grow(_to(3, [1])),
    "grow: placed nowhere": _grow(_to(3, manual=True)),
    "grow: placed on no broker": _grow(_to(3, [])),
    "grow: placed twice": _grow(_to(3, [1], [1])),
    "grow: placed once of two": _grow(_to(4, [1])),
    "grow: placed on two": _grow(_to(3, [1, 2])),
    "grow: placed on an unknown broker": _grow(_to(3, [7])),
    "grow: placed on a broker twice": _grow(_to(3, [1, 1])),
    "grow: placed, not grown": _grow(_to(2, [1])),
    "grow: no time": _grow(_to(3), timeout_ms=-1),
}


def _elect(*topics: Plain, kind: int = 0) -> Call:
    asked = list(topics)
    return call(ApiKey.ELECT_LEADERS, election_type=kind, topic_partitions=asked, timeout_ms=10_000)


def _parts(name: str, *partitions: int) -> Plain:
    return {"topic": name, "partitions": list(partitions)}


ELECT: Final[Mapping[str, Call]] = {
    "elect: preferred": _elect(_parts(TOPIC, 0)),
    "elect: unclean": _elect(_parts(TOPIC, 0), kind=1),
    "elect: kind 9": _elect(_parts(TOPIC, 0), kind=9),
    "elect: kind -1": _elect(_parts(TOPIC, 0), kind=-1),
    "elect: everything, kind 9": call(
        ApiKey.ELECT_LEADERS,
        range(1, 3),
        election_type=9,
        topic_partitions=None,
        timeout_ms=10_000,
    ),
    "elect: missing": _elect(_parts(TOPIC, 9, -1), _parts(MISSING, 0), _parts("", 0)),
    "elect: twice": _elect(_parts(TOPIC, 0, 0)),
    "elect: topic twice": _elect(_parts(TOPIC, 0), _parts(TOPIC, 1)),
    "elect: twice in two": _elect(_parts(TOPIC, 0), _parts(TOPIC, 0)),
    "elect: none": _elect(),
    "elect: no partitions": _elect(_parts(TOPIC)),
}


def _move(*topics: Plain, **more: Plain) -> Call:
    return call(ApiKey.ALTER_PARTITION_REASSIGNMENTS, timeout_ms=9000, topics=list(topics), **more)


def _onto(name: str, *moves: tuple[int, list[int] | None]) -> Plain:
    return {
        "name": name,
        "partitions": [{"partition_index": index, "replicas": ids} for index, ids in moves],
    }


def _moves(*topics: tuple[str, list[int]]) -> Call:
    return call(
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        timeout_ms=9000,
        topics=[{"name": name, "partition_indexes": indexes} for name, indexes in topics],
    )


MOVE: Final[Mapping[str, Call]] = {
    "move: same": _move(_onto(TOPIC, (0, [1]))),
    "move: cancel": _move(_onto(TOPIC, (0, None))),
    "move: cancel missing": _move(_onto(TOPIC, (9, None)), _onto(MISSING, (0, None))),
    "move: nowhere": _move(_onto(TOPIC, (0, []))),
    "move: unknown broker": _move(_onto(TOPIC, (0, [7]))),
    "move: negative broker": _move(_onto(TOPIC, (0, [-1]))),
    "move: broker twice": _move(_onto(TOPIC, (0, [1, 1]))),
    "move: missing": _move(_onto(TOPIC, (9, [1])), _onto(MISSING, (0, [1])), _onto("", (0, [1]))),
    "move: negative partition": _move(_onto(TOPIC, (-1, [1]))),
    "move: twice": _move(_onto(TOPIC, (0, [1]), (0, None))),
    "move: topic twice": _move(_onto(TOPIC, (0, [1])), _onto(TOPIC, (1, [1]))),
    "move: nothing": _move(),
    "move: no partitions": _move(_onto(TOPIC)),
    "moves: of the topic": _moves((TOPIC, [0, 1])),
    "moves: missing": _moves((TOPIC, [9]), (MISSING, [0]), ("", [0])),
    "moves: twice": _moves((TOPIC, [0, 0]), (TOPIC, [1])),
    "moves: nothing": _moves(),
}


def _directories(*topics: Plain) -> Call:
    return call(ApiKey.DESCRIBE_LOG_DIRS, topics=list(topics))


def _to_directory(path: str, *topics: tuple[str, list[int]]) -> Plain:
    return {
        "path": path,
        "topics": [{"name": name, "partitions": indexes} for name, indexes in topics],
    }


def _move_logs(*directories: Plain) -> Call:
    return call(ApiKey.ALTER_REPLICA_LOG_DIRS, dirs=list(directories))


DIRECTORIES: Final[Mapping[str, Call]] = {
    "directories: of a partition": _directories(_parts(TOPIC, 1)),
    "directories: missing": _directories(_parts(TOPIC, 9, -1), _parts(MISSING, 0), _parts("", 0)),
    "directories: twice": _directories(_parts(TOPIC, 1, 1), _parts(TOPIC, 1)),
    "directories: no partitions": _directories(_parts(TOPIC)),
    "directories: nothing": _directories(),
    "move logs: unknown": _move_logs(_to_directory("/none", (TOPIC, [0]))),
    "move logs: relative": _move_logs(_to_directory("none", (TOPIC, [0]))),
    "move logs: nowhere": _move_logs(_to_directory("", (TOPIC, [0]))),
    "move logs: missing": _move_logs(_to_directory("/none", (TOPIC, [9, -1]), (MISSING, [0]))),
    "move logs: twice": _move_logs(
        _to_directory("/none", (TOPIC, [0, 0])), _to_directory("/nada", (TOPIC, [0]))
    ),
    "move logs: nothing": _move_logs(),
}

CALLS: Final[Mapping[str, Call]] = {
    **METADATA,
    **PAGES,
    **CREATE,
    **DELETE,
    **GROW,
    **ELECT,
    **MOVE,
    **DIRECTORIES,
}
