"""Produce, Fetch, ListOffsets, epochs, and the deletion of records."""

from collections.abc import Mapping
from typing import Final

from embedkafka.wire.protocol.api_keys import ApiKey
from tests.wire.one_partition import batch
from tests.wire.plain_messages import Plain
from tests.wire.recorded.raw_calls.table import ID, LONG, MISSING, NO_ID, TOPIC, Call, call

TIME: Final = 1_700_000_000_000
RECORDS: Final = batch(b"a", timestamp=TIME)
TWO_RECORDS: Final = batch(b"a", b"b", timestamp=TIME)
IN_A_TRANSACTION: Final = batch(
    b"x",
    timestamp=TIME,
    producer_id=12345,
    producer_epoch=0,
    base_sequence=0,
    transactional=True,
)
TOO_SHORT: Final = IN_A_TRANSACTION[:8] + b"\1" + IN_A_TRANSACTION[9:]
"""It says that it is 16 megabytes long."""


def _produce(versions: range, *topics: Plain, acks: int = -1) -> Call:
    return call(ApiKey.PRODUCE, versions, acks=acks, timeout_ms=10_000, topic_data=list(topics))


def _written(index: int, records: bytes = RECORDS) -> Plain:
    return {"index": index, "records": records}


def _by_name(name: str, *partitions: Plain) -> Plain:
    return {"name": name, "partition_data": list(partitions)}


_NAMED: Final = range(3, 13)
_IDS: Final = range(13, 14)

PRODUCE: Final[Mapping[str, Call]] = {
    "produce: missing topic": _produce(_NAMED, _by_name(MISSING, _written(0))),
    "produce: missing partition": _produce(_NAMED, _by_name(TOPIC, _written(9), _written(-1))),
    "produce: nameless topic": _produce(_NAMED, _by_name("", _written(0))),
    "produce: long name": _produce(_NAMED, _by_name(LONG, _written(0))),
    "produce: empty records": _produce(_NAMED, _by_name(TOPIC, _written(0, b""))),
    "produce: no head": _produce(_NAMED, _by_name(TOPIC, _written(0), _written(1, b"x" * 20))),
    "produce: cut": _produce(_NAMED, _by_name(TOPIC, _written(0, TWO_RECORDS[:-3]))),
    "produce: cut in its head": _produce(_NAMED, _by_name(TOPIC, _written(0, TWO_RECORDS[:-50]))),
    "produce: no partitions": _produce(_NAMED, _by_name(TOPIC)),
    "produce: missing partition, acks 2": _produce(_NAMED, _by_name(TOPIC, _written(9)), acks=2),
    "produce: missing partition, no records": _produce(_NAMED, _by_name(TOPIC, _written(9, b""))),
    "produce: missing partition, nobody's transaction": _produce(
        _NAMED, _by_name(TOPIC, _written(9, IN_A_TRANSACTION))
    ),
    "produce: missing partition, incomplete": _produce(
        _NAMED, _by_name(TOPIC, _written(9, TOO_SHORT))
    ),
    "produce: acks -2": _produce(_NAMED, _by_name(TOPIC, _written(0)), acks=-2),
    "produce: acks 2": _produce(_NAMED, _by_name(TOPIC, _written(0)), acks=2),
    "produce: nothing": _produce(_NAMED),
    "produce: to offsets": _produce(_NAMED, _by_name("__consumer_offsets", _written(0))),
    "produce: two batches": _produce(_NAMED, _by_name(TOPIC, _written(1, RECORDS + RECORDS))),
    "produce: unknown id": _produce(_IDS, {"topic_id": NO_ID, "partition_data": [_written(0)]}),
    "produce: unknown id twice": _produce(
        _IDS,
        {"topic_id": NO_ID, "partition_data": [_written(0), _written(0)]},
        {"topic_id": NO_ID, "partition_data": [_written(0)]},
    ),
    "produce: id, missing partition": _produce(
        _IDS, {"topic_id": ID, "partition_data": [_written(9)]}
    ),
}


def _fetch(versions: range, *topics: Plain, **more: Plain) -> Call:
    fields = {"max_wait_ms": 0, "min_bytes": 0, "topics": list(topics), **more}
    return call(ApiKey.FETCH, versions, **fields)


def _read(partition: int, offset: int = 0, **more: Plain) -> Plain:
    return {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1, **more}


def _read_topic(name: str, *partitions: Plain) -> Plain:
    return {"topic": name, "partitions": list(partitions)}


def _read_id(topic_id: object, *partitions: Plain) -> Plain:
    return {"topic_id": topic_id, "partitions": list(partitions)}


_FETCH_NAMED: Final = range(4, 13)
_FETCH_IDS: Final = range(13, 19)

FETCH: Final[Mapping[str, Call]] = {
    "fetch: missing topic": _fetch(_FETCH_NAMED, _read_topic(MISSING, _read(0))),
    "fetch: missing partition": _fetch(_FETCH_NAMED, _read_topic(TOPIC, _read(9), _read(-1))),
    "fetch: nameless": _fetch(_FETCH_NAMED, _read_topic("", _read(0))),
    "fetch: beyond": _fetch(_FETCH_NAMED, _read_topic(TOPIC, _read(0, 99))),
    "fetch: negative": _fetch(_FETCH_NAMED, _read_topic(TOPIC, _read(0, -1))),
    "fetch: isolation 7": _fetch(_FETCH_NAMED, _read_topic(TOPIC, _read(0, 99)), isolation_level=7),
    "fetch: twice": _fetch(_FETCH_NAMED, _read_topic(TOPIC, _read(0, 99), _read(0, 98))),
    "fetch: topic twice": _fetch(
        _FETCH_NAMED, _read_topic(TOPIC, _read(0, 99)), _read_topic(TOPIC, _read(1, 99))
    ),
    "fetch: old epoch": _fetch(
        range(9, 13), _read_topic(TOPIC, _read(0, 0, current_leader_epoch=-2))
    ),
    "fetch: future epoch": _fetch(
        range(9, 13), _read_topic(TOPIC, _read(0, 0, current_leader_epoch=99))
    ),
    "fetch: unknown session": _fetch(
        range(7, 13), _read_topic(TOPIC, _read(0)), session_id=77, session_epoch=3
    ),
    "fetch: session without an epoch": _fetch(
        range(7, 13), _read_topic(TOPIC, _read(0, 99)), session_id=77, session_epoch=-1
    ),
    "fetch: as a follower": _fetch(_FETCH_NAMED, _read_topic(TOPIC, _read(0)), replica_id=9),
    "fetch: unknown id": _fetch(_FETCH_IDS, _read_id(NO_ID, _read(0))),
    "fetch: id, missing partition": _fetch(_FETCH_IDS, _read_id(ID, _read(9))),
    "fetch: id, beyond": _fetch(_FETCH_IDS, _read_id(ID, _read(0, 99))),
    "fetch: id, isolation 7": _fetch(_FETCH_IDS, _read_id(ID, _read(0, 99)), isolation_level=7),
}


def _list(*topics: Plain, replica_id: int = -1, **more: Plain) -> Call:
    return call(ApiKey.LIST_OFFSETS, replica_id=replica_id, topics=list(topics), **more)


def _at(name: str, *partitions: tuple[int, int], **more: Plain) -> Plain:
    return {
        "name": name,
        "partitions": [
            {"partition_index": index, "timestamp": timestamp, **more}
            for index, timestamp in partitions
        ],
    }


LIST_OFFSETS: Final[Mapping[str, Call]] = {
    **{
        f"offsets: at {timestamp}": _list(_at(TOPIC, (0, timestamp)))
        for timestamp in (-1, -2, -3, -4, -5, -6, -7, -100, -(2**63), 0, 1 << 60)
    },
    "offsets: missing": _list(_at(MISSING, (0, -1)), _at(TOPIC, (9, -1), (-1, -1))),
    "offsets: nameless": _list(_at("", (0, -1))),
    "offsets: nothing": _list(),
    "offsets: no partitions": _list(_at(TOPIC)),
    "offsets: isolation 7": call(
        ApiKey.LIST_OFFSETS,
        range(2, 12),
        replica_id=-1,
        isolation_level=7,
        topics=[_at(TOPIC, (0, -1))],
    ),
    "offsets: isolation -1": call(
        ApiKey.LIST_OFFSETS,
        range(2, 12),
        replica_id=-1,
        isolation_level=-1,
        topics=[_at(TOPIC, (0, -1))],
    ),
    "offsets: partition twice": _list(_at(TOPIC, (0, -1), (0, -2))),
    "offsets: topic twice": _list(_at(TOPIC, (0, -1)), _at(TOPIC, (1, -1))),
    "offsets: epochs": call(
        ApiKey.LIST_OFFSETS,
        range(4, 12),
        replica_id=-1,
        topics=[_at(TOPIC, (0, -1), current_leader_epoch=99)],
    ),
    "offsets: for debugging": _list(_at(TOPIC, (0, -1)), replica_id=-2),
    "offsets: for a follower": _list(_at(TOPIC, (0, -1)), replica_id=9),
}


def _epochs(*partitions: tuple[int, int, int], name: str = TOPIC, replica_id: int = -1) -> Call:
    return call(
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        replica_id=replica_id,
        topics=[
            {
                "topic": name,
                "partitions": [
                    {"partition": index, "current_leader_epoch": current, "leader_epoch": epoch}
                    for index, current, epoch in partitions
                ],
            }
        ],
    )


EPOCHS: Final[Mapping[str, Call]] = {
    "epoch: first": _epochs((0, -1, 0)),
    "epoch: unknown": _epochs((0, -1, 9)),
    "epoch: negative": _epochs((0, -1, -1), (1, -1, -5)),
    "epoch: of a future leader": _epochs((0, 99, 0)),
    "epoch: missing partition": _epochs((9, -1, 0), (-1, -1, 0)),
    "epoch: missing topic": _epochs((0, -1, 0), name=MISSING),
    "epoch: nameless topic": _epochs((0, -1, 0), name=""),
    "epoch: twice": _epochs((0, -1, 0), (0, -1, 1)),
    "epoch: for a follower": _epochs((0, -1, 0), replica_id=9),
}


def _delete(*topics: Plain, timeout_ms: int = 10_000) -> Call:
    return call(ApiKey.DELETE_RECORDS, topics=list(topics), timeout_ms=timeout_ms)


def _before(name: str, *offsets: tuple[int, int]) -> Plain:
    return {
        "name": name,
        "partitions": [{"partition_index": index, "offset": offset} for index, offset in offsets],
    }


DELETE_RECORDS: Final[Mapping[str, Call]] = {
    "delete records: none": _delete(_before(TOPIC, (0, 0))),
    "delete records: beyond": _delete(_before(TOPIC, (0, 99))),
    "delete records: negative": _delete(_before(TOPIC, (0, -2))),
    "delete records: missing": _delete(_before(TOPIC, (9, 0), (-1, 0)), _before(MISSING, (0, 0))),
    "delete records: nameless": _delete(_before("", (0, 0))),
    "delete records: twice": _delete(_before(TOPIC, (0, 0), (0, 99))),
    "delete records: topic twice": _delete(_before(TOPIC, (0, 0)), _before(TOPIC, (1, 0))),
    "delete records: no time": _delete(_before(TOPIC, (0, 0)), timeout_ms=-1),
    "delete records: nothing": _delete(),
    "delete records: of offsets": _delete(_before("__consumer_offsets", (0, 0))),
}

CALLS: Final[Mapping[str, Call]] = {
    **PRODUCE,
    **FETCH,
    **LIST_OFFSETS,
    **EPOCHS,
    **DELETE_RECORDS,
}
