"""Producer ids and transactions."""

from collections.abc import Mapping
from typing import Final

from embedkafka.wire.protocol.api_keys import ApiKey
from tests.wire.plain_messages import Plain
from tests.wire.recorded.raw_calls.table import GROUP, LONG, MISSING, TOPIC, Call, call

TXN: Final = "raw-no-txn"


def _init(**more: Plain) -> Call:
    fields = {"transactional_id": TXN, "transaction_timeout_ms": 60_000, **more}
    versions = range(3, 6) if "producer_id" in more else None
    return call(ApiKey.INIT_PRODUCER_ID, versions, **fields)


INIT: Final[Mapping[str, Call]] = {
    "init: nameless": _init(transactional_id=""),
    "init: nameless, long timeout": _init(transactional_id="", transaction_timeout_ms=1 << 30),
    "init: no timeout": _init(transaction_timeout_ms=0),
    "init: negative timeout": _init(transaction_timeout_ms=-1),
    "init: long timeout": _init(transaction_timeout_ms=900_001),
    "init: unknown producer": call(
        ApiKey.INIT_PRODUCER_ID,
        range(5, 6),
        transactional_id="raw-init",
        transaction_timeout_ms=60_000,
        producer_id=77,
        producer_epoch=3,
    ),
    "init: producer without epoch": _init(producer_id=77, producer_epoch=-1),
    "init: epoch without producer": _init(producer_id=-1, producer_epoch=3),
    "init: idempotent with a producer": _init(
        transactional_id=None, producer_id=77, producer_epoch=3
    ),
}


def _txn(name: str = TXN, *topics: tuple[str, list[int]], verify_only: bool = False) -> Plain:
    return {
        "transactional_id": name,
        "producer_id": 77,
        "producer_epoch": 3,
        "verify_only": verify_only,
        "topics": [{"name": topic, "partitions": indexes} for topic, indexes in topics],
    }


def _add(*topics: tuple[str, list[int]], name: str = TXN) -> Call:
    return call(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        range(4),
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=77,
        v3_and_below_producer_epoch=3,
        v3_and_below_topics=[{"name": topic, "partitions": indexes} for topic, indexes in topics],
    )


ADD: Final[Mapping[str, Call]] = {
    "add: unknown transaction": _add((TOPIC, [0])),
    "add: missing": _add((TOPIC, [0, 9]), (MISSING, [0])),
    "add: nameless": _add((TOPIC, [0]), name=""),
    "add: nothing": _add(),
    "add: twice": _add((TOPIC, [0, 0]), (TOPIC, [0])),
    "add: no partitions": _add((TOPIC, []), (TOPIC, [0])),
    "add: internal": _add(("__consumer_offsets", [0])),
    "add: internal and others": _add(("__consumer_offsets", [0]), (TOPIC, [0, 9])),
    "add: batch": call(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        range(4, 6),
        transactions=[_txn(TXN, (TOPIC, [0])), _txn("raw-no-other", (TOPIC, [0, 9]))],
    ),
    "add: verify": call(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        range(4, 6),
        transactions=[_txn(TXN, (TOPIC, [0]), verify_only=True)],
    ),
    "add: verify twice": call(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        range(4, 6),
        transactions=[_txn(TXN, (TOPIC, [0, 0]), (TOPIC, [1]), verify_only=True)],
    ),
    "add: verify twice in two": call(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        range(4, 6),
        transactions=[_txn(TXN, (TOPIC, [0, 0]), (TOPIC, [0]), verify_only=True)],
    ),
    "add: verify nothing": call(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        range(4, 6),
        transactions=[_txn(TXN, (TOPIC, []), verify_only=True)],
    ),
    "add offsets: unknown": call(
        ApiKey.ADD_OFFSETS_TO_TXN,
        transactional_id=TXN,
        producer_id=77,
        producer_epoch=3,
        group_id=GROUP,
    ),
    "add offsets: nameless": call(
        ApiKey.ADD_OFFSETS_TO_TXN,
        transactional_id="",
        producer_id=77,
        producer_epoch=3,
        group_id="",
    ),
    "end: unknown": call(
        ApiKey.END_TXN, transactional_id=TXN, producer_id=77, producer_epoch=3, committed=True
    ),
    "end: nameless": call(
        ApiKey.END_TXN, transactional_id="", producer_id=-1, producer_epoch=-1, committed=False
    ),
}


def _offsets(
    *topics: Plain, group: str = GROUP, versions: range | None = None, **more: Plain
) -> Call:
    fields = {
        "transactional_id": TXN,
        "group_id": group,
        "producer_id": 77,
        "producer_epoch": 3,
        "topics": list(topics),
        **more,
    }
    return call(ApiKey.TXN_OFFSET_COMMIT, versions, **fields)


def _of(name: str, *partitions: int) -> Plain:
    return {
        "name": name,
        "partitions": [
            {"partition_index": index, "committed_offset": 1, "committed_metadata": ""}
            for index in partitions
        ],
    }


def _markers(*markers: Plain) -> Call:
    return call(ApiKey.WRITE_TXN_MARKERS, range(1, 2), markers=list(markers))


def _marker(
    *topics: tuple[str, list[int]], producer: int = 77, epoch: int = 3, coordinator: int = 1
) -> Plain:
    return {
        "producer_id": producer,
        "producer_epoch": epoch,
        "transaction_result": False,
        "coordinator_epoch": coordinator,
        "topics": [{"name": name, "partition_indexes": indexes} for name, indexes in topics],
    }


WRITE: Final[Mapping[str, Call]] = {
    "txn offsets: missing": _offsets(_of(TOPIC, 9), _of(MISSING, 0)),
    "txn offsets: some missing": _offsets(_of(TOPIC, 0, 9), _of(MISSING, 0, 9)),
    "txn offsets: topic twice": _offsets(_of(TOPIC, 0), _of(TOPIC, 0)),
    "txn offsets: nameless group": _offsets(_of(TOPIC, 0), group=""),
    "txn offsets: nothing": _offsets(),
    "txn offsets: member": _offsets(
        _of(TOPIC, 0), versions=range(3, 5), generation_id=3, member_id="m"
    ),
    "markers: missing": _markers(_marker((TOPIC, [9]), (MISSING, [0]))),
    "markers: negative producer": _markers(_marker(("__transaction_state", [0]), producer=-1)),
    "markers: negative epoch": _markers(
        _marker(("__transaction_state", [0]), epoch=-1), _marker((TOPIC, [9]), producer=78)
    ),
    "markers: negative coordinator": _markers(_marker((TOPIC, [9]), coordinator=-1)),
    "markers: nothing": _markers(),
    "markers: no topics": _markers(_marker()),
    "markers: no partitions": _markers(_marker((TOPIC, [])), _marker((TOPIC, []), (MISSING, [0]))),
}


def _listed(versions: range | None = None, **more: Plain) -> Call:
    fields = {"state_filters": [], "producer_id_filters": [], **more}
    return call(ApiKey.LIST_TRANSACTIONS, versions, **fields)


ADMIN: Final[Mapping[str, Call]] = {
    "transactions: unknown": call(
        ApiKey.DESCRIBE_TRANSACTIONS, transactional_ids=[TXN, "", TXN, LONG]
    ),
    "transactions: nothing": call(ApiKey.DESCRIBE_TRANSACTIONS, transactional_ids=[]),
    "transactions: of unknown state": _listed(state_filters=["made up", ""]),
    "transactions: of no producer": _listed(producer_id_filters=[-5]),
    "transactions: of a duration": _listed(
        range(1, 3), producer_id_filters=[-5], duration_filter=-7
    ),
    "transactions: of a pattern": _listed(range(2, 3), transactional_id_pattern="made-up.*"),
    "transactions: of a bad pattern": _listed(range(2, 3), transactional_id_pattern="["),
    "transactions: of a pattern that looks ahead": _listed(
        range(2, 3), transactional_id_pattern="(?=listed).*"
    ),
    "transactions: of a pattern that refers back": _listed(
        range(2, 3), transactional_id_pattern=r"(l)\1"
    ),
    "transactions: of an empty pattern": _listed(
        range(2, 3), producer_id_filters=[-5], transactional_id_pattern=""
    ),
    "producers: known": call(
        ApiKey.DESCRIBE_PRODUCERS, topics=[{"name": TOPIC, "partition_indexes": [1, 1]}]
    ),
    "producers: missing": call(
        ApiKey.DESCRIBE_PRODUCERS,
        topics=[
            {"name": TOPIC, "partition_indexes": [9, -1]},
            {"name": MISSING, "partition_indexes": [0]},
            {"name": "", "partition_indexes": [0]},
            {"name": "a b", "partition_indexes": [0]},
        ],
    ),
    "producers: nothing": call(ApiKey.DESCRIBE_PRODUCERS, topics=[]),
}

CALLS: Final[Mapping[str, Call]] = {**INIT, **ADD, **WRITE, **ADMIN}
