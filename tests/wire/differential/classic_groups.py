"""Sequences about classic groups: members that join, sync, commit and leave."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from embedkafka.wire.protocol.api_keys import ApiKey
from tests.wire.differential.invention import Choices, draft
from tests.wire.differential.runs import Versions
from tests.wire.differential.steps import Id, Step, Subscription
from tests.wire.plain_messages import Plain

_MEMBERS: Final = 6
_SESSION_MS: Final = 60_000
_REBALANCE_MS: Final = 120_000


@dataclass(slots=True)
class Member:
    """A client with a connection of its own, in the group or not."""

    connection: int
    group: str
    id: Plain = ""
    instance: str | None = None
    generation: int = -1
    protocol: str | None = None
    leads: bool = False
    others: list[Plain] | None = None
    must_join: bool = True
    must_sync: bool = False


class ClassicGroups:
    """Two groups, six clients, one topic of two partitions."""

    def __init__(self, random: Random, versions: Versions) -> None:
        self._random = random
        self._choose = Choices(random, versions)
        self._topic_id: Plain = Id("uuid", -1, 0)
        self._members = [
            Member(
                connection=index + 1,
                group="@g" if index < 4 else "@h",
                instance=random.choice([None, None, "@i1", "@i2"]),
            )
            for index in range(_MEMBERS)
        ]

    def begin(self) -> Iterable[Step]:
        topic = {"name": "@t", "num_partitions": 2, "replication_factor": 1}
        topics = [{**topic, "assignments": [], "configs": []}]
        yield draft(ApiKey.CREATE_TOPICS, 7, topics=topics, timeout_ms=10_000)
        yield draft(ApiKey.METADATA, 12, topics=[{"name": "@t"}])

    def next(self, is_busy: Callable[[int], bool]) -> Step:
        choose = self._choose
        free = [member for member in self._members if not is_busy(member.connection)]
        if not free or choose.seldom(4):
            return choose.one(
                (4, self._describe),
                (2, self._list),
                (1, self._delete),
                (4, self._fetch_offsets),
                (2, self._delete_offsets),
                (2, self._commit_from_outside),
                (1, self._find),
            )()
        member = self._random.choice(free)
        if member.must_join and not choose.seldom(6):
            return self._join(member)
        if member.must_sync and not choose.seldom(5):
            return self._sync(member)
        return choose.one(
            (2, self._join),
            (2, self._sync),
            (5, self._heartbeat),
            (1, self._leave),
            (4, self._commit),
        )(member)

    def learn(self, step: Step, answer: Plain) -> None:
        if not isinstance(answer, dict):
            return
        if step.api == ApiKey.METADATA:
            self._topic_id = answer["topics"][0]["topic_id"]
        members = [each for each in self._members if each.connection == step.connection]
        if not members:
            return
        (member,) = members
        error = answer.get("error_code")
        if error in ("UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID"):
            member.id, member.must_join, member.must_sync = "", True, False
        elif error in ("REBALANCE_IN_PROGRESS", "ILLEGAL_GENERATION"):
            member.must_join, member.must_sync = True, False
        elif step.api == ApiKey.JOIN_GROUP:
            self._learn_join(member, answer)
        elif step.api == ApiKey.SYNC_GROUP and error == "NONE":
            member.must_sync = False
        elif step.api == ApiKey.LEAVE_GROUP and error == "NONE":
            member.id, member.must_join = "", True

    def _learn_join(self, member: Member, answer: Plain) -> None:
        if answer["error_code"] == "MEMBER_ID_REQUIRED":
            member.id = answer["member_id"]
        elif answer["error_code"] == "NONE":
            member.id = answer["member_id"]
            member.generation = answer["generation_id"]
            member.protocol = answer["protocol_name"]
            member.leads = answer["leader"] == answer["member_id"]
            member.others = [each["member_id"] or "stranger" for each in answer["members"]]
            member.must_join, member.must_sync = False, not answer["skip_assignment"]

    # Moves of members

    def _join(self, member: Member) -> Step:
        choose, random = self._choose, self._random
        version = choose.version(ApiKey.JOIN_GROUP)
        topics = random.choice([["@t"], ["@t"], ["@t", "@u"], []])
        metadata = choose.one(
            (8, Subscription(topics=topics, version=random.choice([0, 0, 1]))),
            (1, b"junk"),
            (1, b""),
        )
        names = choose.one((6, ["range", "roundrobin"]), (3, ["range"]), (1, ["other"]), (0.3, []))
        return draft(
            ApiKey.JOIN_GROUP,
            version,
            member.connection,
            group_id=choose.one((30, member.group), (0.5, "")),
            session_timeout_ms=choose.one((30, _SESSION_MS), (0.5, 1), (0.5, 1 << 30)),
            rebalance_timeout_ms=_REBALANCE_MS,
            member_id=choose.one((20, member.id), (1, ""), (1, "stranger")),
            group_instance_id=self._instance(member) if version >= 5 else None,
            protocol_type=choose.one((30, "consumer"), (1, "connect"), (0.5, "")),
            protocols=[{"name": name, "metadata": metadata} for name in names],
            reason=random.choice([None, "why"]),
        )

    def _sync(self, member: Member) -> Step:
        choose, random = self._choose, self._random
        version = choose.version(ApiKey.SYNC_GROUP)
        assignments = []
        if member.leads and not choose.seldom(10):
            assignments = [
                {"member_id": other, "assignment": random.choice([b"a", b"bb", b""])}
                for other in [*(member.others or []), *(["stranger"] if choose.seldom(10) else [])]
            ]
        return draft(
            ApiKey.SYNC_GROUP,
            version,
            member.connection,
            group_id=member.group,
            generation_id=self._generation(member),
            # Not another member's id: Kafka forgets the sync that the other one waits for.
            member_id=choose.one((20, member.id), (1, ""), (1, "stranger")),
            group_instance_id=self._instance(member) if version >= 3 else None,
            protocol_type=choose.one((20, "consumer"), (1, None), (1, "connect")),
            protocol_name=choose.one((20, member.protocol), (1, None), (1, "sticky")),
            assignments=assignments,
        )

    def _heartbeat(self, member: Member) -> Step:
        version = self._choose.version(ApiKey.HEARTBEAT)
        return draft(
            ApiKey.HEARTBEAT,
            version,
            member.connection,
            group_id=self._choose.one((30, member.group), (1, "@nobody"), (0.5, "")),
            generation_id=self._generation(member),
            member_id=self._id(member),
            group_instance_id=self._instance(member) if version >= 3 else None,
        )

    def _leave(self, member: Member) -> Step:
        choose = self._choose
        version = choose.version(ApiKey.LEAVE_GROUP)
        leaving: list[Plain] = [
            {
                "member_id": choose.one((4, one.id), (1, "")),
                "group_instance_id": self._instance(one),
                "reason": self._random.choice([None, "why"]),
            }
            for one in [member, *([self._random.choice(self._members)] if choose.seldom(4) else [])]
        ]
        return draft(
            ApiKey.LEAVE_GROUP,
            version,
            member.connection,
            group_id=choose.one((30, member.group), (1, "@nobody")),
            member_id=self._id(member),
            members=leaving if not choose.seldom(30) else [],
        )

    def _commit(self, member: Member) -> Step:
        version = self._choose.version(ApiKey.OFFSET_COMMIT)
        return draft(
            ApiKey.OFFSET_COMMIT,
            version,
            member.connection,
            group_id=member.group,
            generation_id_or_member_epoch=self._generation(member),
            member_id=self._id(member),
            group_instance_id=self._instance(member) if version >= 7 else None,
            topics=self._committed(version, too_much=member.generation > 0),
        )

    def _generation(self, member: Member) -> int:
        return member.generation + self._choose.one((20, 0), (1, -1), (1, 1))

    def _id(self, member: Member) -> Plain:
        other = self._random.choice(self._members).id
        return self._choose.one((20, member.id), (1, ""), (1, "stranger"), (1, other))

    def _instance(self, member: Member) -> str | None:
        return self._choose.one((20, member.instance), (1, None), (1, "@i1"))

    # Moves of others

    def _committed(self, version: int, *, too_much: bool = False) -> list[dict[str, Any]]:
        """Not too much for a new group, which Kafka shows only after it has stored something."""
        choose, random = self._choose, self._random
        return [
            {
                **self._topic(version, name),
                "partitions": [
                    {
                        "partition_index": index,
                        "committed_offset": random.choice([0, 1, 5, -1]),
                        "committed_leader_epoch": random.choice([-1, 0, 3]),
                        "committed_metadata": choose.one(
                            (5, "m"), (2, ""), (2, None), (0.3, "x" * 5000 if too_much else "")
                        ),
                    }
                    for index in choose.some([0, 1, 7], [9, 6, 1], at_most=2)
                ],
            }
            for name in choose.some(["@t", "@missing"], [9, 1], at_most=2)
        ]

    def _topic(self, version: int, name: str) -> dict[str, Any]:
        if version < 10:
            return {"name": name}
        return {"topic_id": self._topic_id if name == "@t" else Id("uuid", -1, 0)}

    def _group(self) -> str:
        return self._choose.one((6, "@g"), (3, "@h"), (2, "@simple"), (1, "@nobody"), (0.3, ""))

    def _commit_from_outside(self) -> Step:
        version = self._choose.version(ApiKey.OFFSET_COMMIT)
        return draft(
            ApiKey.OFFSET_COMMIT,
            version,
            group_id=self._choose.one((1, self._group()), (2, "@simple")),
            topics=self._committed(version),
        )

    def _fetch_offsets(self) -> Step:
        choose = self._choose
        version = choose.version(ApiKey.OFFSET_FETCH)
        topics = None
        if version < 2 or not choose.seldom(4):
            topics = [
                {
                    **self._topic(version, name),
                    "partition_indexes": choose.some([0, 1, 7], [9, 6, 1], at_most=2),
                }
                for name in choose.some(["@t", "@missing"], [9, 1], at_most=2)
            ]
        if version < 8:
            more: dict[str, Plain] = {"group_id": self._group(), "topics": topics}
        else:
            groups = [self._group() for _ in range(self._random.choice([1, 1, 2]))]
            member = self._random.choice(self._members)
            more = {
                "groups": [
                    {
                        "group_id": group,
                        "topics": topics,
                        "member_id": choose.one((5, None), (1, member.id), (0.5, "stranger")),
                        "member_epoch": choose.one((5, -1), (1, member.generation)),
                    }
                    for group in groups
                ]
            }
        return draft(ApiKey.OFFSET_FETCH, version, require_stable=choose.seldom(2), **more)

    def _delete_offsets(self) -> Step:
        choose = self._choose
        topics = [
            {
                "name": name,
                "partitions": [
                    {"partition_index": index}
                    for index in choose.some([0, 1, 7], [9, 6, 1], at_most=2)
                ],
            }
            for name in choose.some(["@t", "@missing"], [9, 1], at_most=2)
        ]
        return draft(ApiKey.OFFSET_DELETE, 0, group_id=self._group(), topics=topics)

    def _describe(self) -> Step:
        version = self._choose.version(ApiKey.DESCRIBE_GROUPS)
        return draft(
            ApiKey.DESCRIBE_GROUPS,
            version,
            groups=[self._group() for _ in range(self._random.choice([1, 1, 2]))],
            include_authorized_operations=self._choose.seldom(2),
        )

    def _list(self) -> Step:
        choose = self._choose
        return draft(
            ApiKey.LIST_GROUPS,
            choose.version(ApiKey.LIST_GROUPS),
            states_filter=choose.one(
                (3, []), (1, ["Stable"]), (1, ["empty", "PreparingRebalance"]), (0.5, ["x"])
            ),
            types_filter=choose.one((3, []), (1, ["classic"]), (1, ["consumer"]), (0.5, ["x"])),
        )

    def _delete(self) -> Step:
        version = self._choose.version(ApiKey.DELETE_GROUPS)
        groups = [self._group() for _ in range(self._random.choice([1, 1, 2]))]
        return draft(ApiKey.DELETE_GROUPS, version, groups_names=groups)

    def _find(self) -> Step:
        version = self._choose.version(ApiKey.FIND_COORDINATOR)
        keys = [self._group() for _ in range(self._random.choice([1, 1, 2, 0]))]
        more: dict[str, Plain] = {"key": keys[0]} if keys and version < 4 else {}
        if version >= 4:
            more = {"coordinator_keys": keys}
        key_type = self._choose.one((5, 0), (2, 1), (0.5, 9))
        return draft(ApiKey.FIND_COORDINATOR, version, key_type=key_type, **more)
