"""Groups and their offsets."""

from collections.abc import Mapping
from typing import Final

from embedkafka.wire.protocol.api_keys import ApiKey
from tests.wire.plain_messages import Plain
from tests.wire.recorded.raw_calls.table import (
    GROUP,
    ID,
    LONG,
    MISSING,
    NO_GROUP,
    NO_ID,
    TOPIC,
    Call,
    call,
)


def _committed(*partitions: int, offset: int = 1, metadata: str | None = "") -> list[Plain]:
    return [
        {"partition_index": index, "committed_offset": offset, "committed_metadata": metadata}
        for index in partitions
    ]


def _commit(
    *topics: Plain, group: str = GROUP, versions: range | None = None, **more: Plain
) -> Call:
    return call(
        ApiKey.OFFSET_COMMIT, versions or range(2, 10), group_id=group, topics=list(topics), **more
    )


def _of(name: str, *partitions: int, **more: Plain) -> Plain:
    return {"name": name, "partitions": _committed(*partitions, **more)}


def _of_id(topic_id: object, *partitions: int) -> Plain:
    return {"topic_id": topic_id, "partitions": _committed(*partitions)}


_IDS: Final = range(10, 11)

COMMIT: Final[Mapping[str, Call]] = {
    "commit: known": _commit(_of(TOPIC, 0)),
    "commit: missing": _commit(_of(TOPIC, 9, -1), _of(MISSING, 0)),
    "commit: nameless topic": _commit(_of("", 0)),
    "commit: twice": _commit(_of(TOPIC, 0, 0)),
    "commit: topic twice": _commit(_of(TOPIC, 0), _of(TOPIC, 1)),
    "commit: topic twice, missing": _commit(_of(TOPIC, 0, 9), _of(TOPIC, 8), _of(MISSING, 0)),
    "commit: same partition in two": _commit(_of(TOPIC, 0), _of(TOPIC, 0)),
    "commit: nothing": _commit(),
    "commit: no partitions": _commit(_of(TOPIC)),
    "commit: no partitions of a missing topic": _commit(_of(TOPIC), _of(MISSING)),
    "commit: negative offset": _commit(_of(TOPIC, 0, offset=-5)),
    "commit: null metadata": _commit(_of(TOPIC, 0, metadata=None)),
    "commit: longest metadata": _commit(_of(TOPIC, 0, metadata="m" * 4096)),
    "commit: long metadata": _commit(_of(TOPIC, 0, metadata="m" * 4097)),
    "commit: nameless group": _commit(_of(TOPIC, 0), group=""),
    "commit: long group": _commit(_of(TOPIC, 0), group=LONG),
    "commit: generation": _commit(_of(TOPIC, 0), generation_id_or_member_epoch=3, member_id="m"),
    "commit: generation of a new group": _commit(
        _of(TOPIC, 0), group=NO_GROUP, generation_id_or_member_epoch=3, member_id="m"
    ),
    "commit: member without generation": _commit(
        _of(TOPIC, 0), generation_id_or_member_epoch=-1, member_id="m"
    ),
    "commit: instance": _commit(
        _of(TOPIC, 0),
        versions=range(7, 10),
        generation_id_or_member_epoch=3,
        member_id="m",
        group_instance_id="i",
    ),
    "commit: ids": _commit(_of_id(ID, 0), versions=_IDS),
    "commit: unknown ids": _commit(_of_id(NO_ID, 0), _of_id(ID, 9), versions=_IDS),
    "commit: ids, some missing": _commit(_of_id(ID, 0, 9), _of_id(NO_ID, 0), versions=_IDS),
    "commit: id twice": _commit(_of_id(ID, 0), _of_id(ID, 1), versions=_IDS),
    "commit: no id": _commit({"partitions": _committed(0)}, versions=_IDS),
}


def _fetch(group: str, topics: list[tuple[str, list[int]]] | None, versions: range) -> Call:
    asked = (
        None
        if topics is None
        else [{"name": name, "partition_indexes": indexes} for name, indexes in topics]
    )
    return call(ApiKey.OFFSET_FETCH, versions, group_id=group, topics=asked)


def _fetch_groups(*groups: Plain, versions: range = range(8, 10), **more: Plain) -> Call:
    return call(ApiKey.OFFSET_FETCH, versions, groups=list(groups), **more)


def _group(name: str, *topics: tuple[str, list[int]], **more: Plain) -> Plain:
    listed = [{"name": topic, "partition_indexes": indexes} for topic, indexes in topics]
    return {"group_id": name, "topics": listed, **more}


def _group_ids(name: str, *topics: tuple[object, list[int]]) -> Plain:
    listed = [{"topic_id": topic, "partition_indexes": indexes} for topic, indexes in topics]
    return {"group_id": name, "topics": listed}


_ONE: Final = range(1, 8)

FETCH: Final[Mapping[str, Call]] = {
    "fetch offsets: known": _fetch(GROUP, [(TOPIC, [0, 1, 9, -1])], _ONE),
    "fetch offsets: missing": _fetch(GROUP, [(MISSING, [0]), ("", [0])], _ONE),
    "fetch offsets: missing group": _fetch(NO_GROUP, [(TOPIC, [0])], _ONE),
    "fetch offsets: nameless group": _fetch("", [(TOPIC, [0])], _ONE),
    "fetch offsets: all": _fetch(GROUP, None, range(2, 8)),
    "fetch offsets: all of a missing group": _fetch(NO_GROUP, None, range(2, 8)),
    "fetch offsets: nothing": _fetch(GROUP, [], _ONE),
    "fetch offsets: twice": _fetch(GROUP, [(TOPIC, [0, 0])], _ONE),
    "fetch offsets: topic twice": _fetch(GROUP, [(TOPIC, [0]), (TOPIC, [1])], _ONE),
    "fetch offsets: groups": _fetch_groups(
        _group(GROUP, (TOPIC, [0])), _group(NO_GROUP, (TOPIC, [0])), _group("", (TOPIC, [0]))
    ),
    "fetch offsets: group twice": _fetch_groups(
        _group(GROUP, (TOPIC, [0])), _group(GROUP, (TOPIC, [1]))
    ),
    "fetch offsets: all of groups": _fetch_groups(
        {"group_id": GROUP, "topics": None}, {"group_id": NO_GROUP, "topics": None}
    ),
    "fetch offsets: no groups": _fetch_groups(),
    "fetch offsets: stable": _fetch_groups(_group(GROUP, (TOPIC, [0])), require_stable=True),
    "fetch offsets: member": _fetch_groups(
        _group(GROUP, (TOPIC, [0]), member_id="m", member_epoch=1), versions=range(9, 10)
    ),
    "fetch offsets: member of a missing group": _fetch_groups(
        _group(NO_GROUP, (TOPIC, [0]), member_id="m", member_epoch=1), versions=range(9, 10)
    ),
    "fetch offsets: ids": _fetch_groups(_group_ids(GROUP, (ID, [0, 9])), versions=_IDS),
    "fetch offsets: unknown ids": _fetch_groups(
        _group_ids(GROUP, (NO_ID, [0]), (ID, [1])), versions=_IDS
    ),
    "fetch offsets: id twice": _fetch_groups(
        _group_ids(GROUP, (ID, [0]), (ID, [1])), versions=_IDS
    ),
    "fetch offsets: all by id": _fetch_groups({"group_id": GROUP, "topics": None}, versions=_IDS),
}

COORDINATOR: Final[Mapping[str, Call]] = {
    "coordinator: group": call(ApiKey.FIND_COORDINATOR, range(4), key=GROUP, key_type=0),
    "coordinator: nameless": call(ApiKey.FIND_COORDINATOR, range(4), key=""),
    "coordinator: one of share groups": call(
        ApiKey.FIND_COORDINATOR, range(1, 4), key=GROUP, key_type=2
    ),
    "coordinator: type 9": call(ApiKey.FIND_COORDINATOR, range(1, 4), key=GROUP, key_type=9),
    "coordinator: type -1": call(ApiKey.FIND_COORDINATOR, range(1, 4), key=GROUP, key_type=-1),
    "coordinator: types": call(
        ApiKey.FIND_COORDINATOR, range(4, 7), key_type=9, coordinator_keys=[GROUP, ""]
    ),
    "coordinator: share": call(
        ApiKey.FIND_COORDINATOR, range(4, 7), key_type=2, coordinator_keys=[GROUP]
    ),
    "coordinator: groups": call(
        ApiKey.FIND_COORDINATOR, range(4, 7), coordinator_keys=[GROUP, "", GROUP]
    ),
    "coordinator: nothing": call(ApiKey.FIND_COORDINATOR, range(4, 7), coordinator_keys=[]),
    "coordinator: transaction": call(
        ApiKey.FIND_COORDINATOR, range(4, 7), key_type=1, coordinator_keys=["raw-txn", ""]
    ),
}


def _join(group: str = "raw-join", versions: range | None = None, **more: Plain) -> Call:
    fields = {
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 10_000,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
        **more,
    }
    return call(ApiKey.JOIN_GROUP, versions or range(2, 10), group_id=group, **fields)


MEMBERS: Final[Mapping[str, Call]] = {
    "join: nameless group": _join(""),
    "join: short session": _join(session_timeout_ms=1),
    "join: long session": _join(session_timeout_ms=99_999_999),
    "join: negative session": _join(session_timeout_ms=-1),
    "join: unknown member": _join(member_id="m"),
    "join: no protocols": _join(protocols=[]),
    "join: no protocol type": _join(protocol_type=""),
    "join: unknown instance": _join(member_id="m", group_instance_id="i", versions=range(5, 10)),
    "heartbeat: missing group": call(
        ApiKey.HEARTBEAT, group_id=NO_GROUP, generation_id=1, member_id="m"
    ),
    "heartbeat: unknown member": call(
        ApiKey.HEARTBEAT, group_id=GROUP, generation_id=1, member_id="m"
    ),
    "heartbeat: nameless group": call(
        ApiKey.HEARTBEAT, group_id="", generation_id=-1, member_id=""
    ),
    "heartbeat: instance": call(
        ApiKey.HEARTBEAT,
        range(3, 5),
        group_id=GROUP,
        generation_id=1,
        member_id="m",
        group_instance_id="i",
    ),
    "sync: missing group": call(
        ApiKey.SYNC_GROUP, group_id=NO_GROUP, generation_id=1, member_id="m", assignments=[]
    ),
    "sync: nameless group": call(
        ApiKey.SYNC_GROUP, range(5), group_id="", generation_id=1, member_id="m", assignments=[]
    ),
    "sync: protocols": call(
        ApiKey.SYNC_GROUP,
        range(5, 6),
        group_id=GROUP,
        generation_id=1,
        member_id="m",
        protocol_type="consumer",
        protocol_name="range",
        assignments=[],
    ),
    "leave: missing group": call(ApiKey.LEAVE_GROUP, range(3), group_id=NO_GROUP, member_id="m"),
    "leave: unknown member": call(ApiKey.LEAVE_GROUP, range(3), group_id=GROUP, member_id="m"),
    "leave: nameless group": call(ApiKey.LEAVE_GROUP, range(3), group_id="", member_id=""),
    "leave: members": call(
        ApiKey.LEAVE_GROUP,
        range(3, 6),
        group_id=GROUP,
        members=[{"member_id": "m"}, {"member_id": "", "group_instance_id": "i"}],
    ),
    "leave: member twice": call(
        ApiKey.LEAVE_GROUP,
        range(3, 6),
        group_id=GROUP,
        members=[{"member_id": "m"}, {"member_id": "m"}],
    ),
    "leave: no members": call(ApiKey.LEAVE_GROUP, range(3, 6), group_id=GROUP, members=[]),
    "leave: members of a missing group": call(
        ApiKey.LEAVE_GROUP, range(3, 6), group_id=NO_GROUP, members=[{"member_id": "m"}]
    ),
    "leave: no members of a missing group": call(
        ApiKey.LEAVE_GROUP, range(3, 6), group_id=NO_GROUP, members=[]
    ),
}


def _modern(versions: range | None = None, **more: Plain) -> Call:
    fields = {
        "group_id": "raw-modern",
        "member_id": "m",
        "member_epoch": 0,
        "rebalance_timeout_ms": 1000,
        "subscribed_topic_names": [TOPIC],
        "topic_partitions": [],
        **more,
    }
    return call(ApiKey.CONSUMER_GROUP_HEARTBEAT, versions, **fields)


def _describe(*groups: str) -> Call:
    return call(
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        group_ids=list(groups),
        include_authorized_operations=True,
    )


MODERN: Final[Mapping[str, Call]] = {
    "modern: blank group": _modern(group_id="  "),
    "modern: no topics": _modern(subscribed_topic_names=None),
    "modern: no timeout": _modern(rebalance_timeout_ms=-1),
    "modern: no partitions": _modern(topic_partitions=None),
    "modern: partitions": _modern(topic_partitions=[{"topic_id": ID, "partitions": [0]}]),
    "modern: nameless instance": _modern(instance_id=""),
    "modern: nameless rack": _modern(rack_id=""),
    "modern: blank member": _modern(range(1, 2), member_id=" "),
    "modern: blank instance": _modern(instance_id=" "),
    "modern: blank rack": _modern(rack_id=" "),
    "modern: unknown assignor": _modern(server_assignor="made-up"),
    "modern: nameless assignor": _modern(server_assignor=""),
    "modern: epoch 5 of a missing group": _modern(group_id=NO_GROUP, member_epoch=5),
    "modern: epoch -3": _modern(group_id=NO_GROUP, member_epoch=-3),
    "modern: leaves a missing group": _modern(group_id=NO_GROUP, member_epoch=-1),
    "modern: instance leaves": _modern(group_id=NO_GROUP, member_epoch=-2),
    "modern: bad expression": call(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        range(1, 2),
        group_id="raw-modern",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=1000,
        subscribed_topic_names=[],
        subscribed_topic_regex="[",
        topic_partitions=[],
    ),
    "modern describe: classic and missing": _describe(GROUP, NO_GROUP, ""),
    "modern describe: twice": _describe(NO_GROUP, NO_GROUP),
    "modern describe: nothing": _describe(),
}

ADMIN: Final[Mapping[str, Call]] = {
    "groups: described": call(ApiKey.DESCRIBE_GROUPS, groups=[GROUP, NO_GROUP, ""]),
    "groups: operations": call(
        ApiKey.DESCRIBE_GROUPS,
        range(3, 7),
        groups=[GROUP, NO_GROUP],
        include_authorized_operations=True,
    ),
    "groups: described twice": call(ApiKey.DESCRIBE_GROUPS, groups=[GROUP, GROUP]),
    "groups: nothing described": call(ApiKey.DESCRIBE_GROUPS, groups=[]),
    "groups: of unknown state": call(
        ApiKey.LIST_GROUPS, range(4, 6), states_filter=["made up", "Dead"]
    ),
    "groups: of unknown type": call(ApiKey.LIST_GROUPS, range(5, 6), types_filter=["made up"]),
    "groups: of no type": call(ApiKey.LIST_GROUPS, range(5, 6), types_filter=[""]),
    "groups: deleted": call(ApiKey.DELETE_GROUPS, groups_names=[NO_GROUP, ""]),
    "groups: deleted twice": call(ApiKey.DELETE_GROUPS, groups_names=[NO_GROUP, NO_GROUP]),
    "groups: nothing deleted": call(ApiKey.DELETE_GROUPS, groups_names=[]),
    "offsets deleted: missing group": call(
        ApiKey.OFFSET_DELETE,
        group_id=NO_GROUP,
        topics=[{"name": TOPIC, "partitions": [{"partition_index": 0}]}],
    ),
    "offsets deleted: nameless group": call(
        ApiKey.OFFSET_DELETE,
        group_id="",
        topics=[{"name": TOPIC, "partitions": [{"partition_index": 0}]}],
    ),
    "offsets deleted: nothing": call(ApiKey.OFFSET_DELETE, group_id=GROUP, topics=[]),
    "offsets deleted: no partitions": call(
        ApiKey.OFFSET_DELETE, group_id=GROUP, topics=[{"name": TOPIC, "partitions": []}]
    ),
    "offsets deleted: no partitions of a missing topic": call(
        ApiKey.OFFSET_DELETE,
        group_id=GROUP,
        topics=[{"name": TOPIC, "partitions": []}, {"name": MISSING, "partitions": []}],
    ),
    "offsets deleted: some missing": call(
        ApiKey.OFFSET_DELETE,
        group_id=GROUP,
        topics=[
            {"name": TOPIC, "partitions": [{"partition_index": 0}, {"partition_index": 9}]},
            {"name": MISSING, "partitions": [{"partition_index": 0}]},
        ],
    ),
    "offsets deleted: twice": call(
        ApiKey.OFFSET_DELETE,
        group_id=GROUP,
        topics=[
            {"name": TOPIC, "partitions": [{"partition_index": 1}, {"partition_index": 1}]},
            {"name": TOPIC, "partitions": [{"partition_index": 1}]},
        ],
    ),
}

CALLS: Final[Mapping[str, Call]] = {
    **COMMIT,
    **FETCH,
    **COORDINATOR,
    **MEMBERS,
    **MODERN,
    **ADMIN,
}
