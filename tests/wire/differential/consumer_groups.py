"""Sequences about groups whose coordinator assigns the partitions (KIP-848)."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Final

from embedkafka.wire.protocol.api_keys import ApiKey
from tests.wire.differential.invention import Choices, draft
from tests.wire.differential.runs import Versions
from tests.wire.differential.steps import Id, Step
from tests.wire.plain_messages import Plain

TOPICS: Final = {"consumed-t": 3, "consumed-u": 2}
_REBALANCE_MS: Final = 120_000


@dataclass(slots=True)
class Member:
    name: str
    group: str
    instance: str | None = None
    id: Plain = ""
    epoch: int = 0
    assigned: list[Plain] = field(default_factory=list)
    reported: list[Plain] | None = None


class ConsumerGroups:
    """Two groups, five members, two topics."""

    def __init__(self, random: Random, versions: Versions) -> None:
        self._random = random
        self._choose = Choices(random, versions)
        self._ids: dict[str, Plain] = {}
        self._members = [
            Member(
                name=f"@m{index}",
                group="@g" if index < 3 else "@h",
                instance=random.choice([None, None, "@i1", "@i2"]),
            )
            for index in range(5)
        ]
        self._asked: dict[str, Member] = {}

    def begin(self) -> Iterable[Step]:
        yield draft(ApiKey.METADATA, 12, topics=[{"name": name} for name in TOPICS])

    def next(self, is_busy: Callable[[int], bool]) -> Step:
        choose = self._choose
        if choose.seldom(4):
            return choose.one(
                (6, self._describe),
                (2, self._describe_classic),
                (2, self._list),
                (1, self._delete),
                (4, self._fetch_offsets),
                (1, self._delete_offsets),
            )()
        member = self._random.choice(self._members)
        if member.epoch == 0:
            return self._join(member)
        return choose.one(
            (10, self._heartbeat),
            (1, self._join),
            (2, self._change),
            (1, self._leave),
            (3, self._commit),
        )(member)

    def learn(self, step: Step, answer: Plain) -> None:
        if not isinstance(answer, dict):
            return
        if step.api == ApiKey.METADATA:
            for topic in answer["topics"]:
                self._ids[topic["name"]] = topic["topic_id"]
        elif step.api == ApiKey.CONSUMER_GROUP_HEARTBEAT:
            member = self._asked.pop(str(step.fields["rack_id"]), None)
            if member is not None:
                self._learn_heartbeat(member, answer)

    def _learn_heartbeat(self, member: Member, answer: Plain) -> None:
        if answer["error_code"] in ("UNKNOWN_MEMBER_ID", "FENCED_MEMBER_EPOCH"):
            member.epoch, member.assigned, member.reported = 0, [], None
        elif answer["error_code"] == "NONE":
            member.id = answer["member_id"]
            member.epoch = max(0, answer["member_epoch"])
            if answer["assignment"] is not None:
                member.assigned = answer["assignment"]["topic_partitions"]

    # Moves of members

    def _send(self, member: Member, **more: Plain) -> Step:
        """A heartbeat; the rack tells whose it is when it is answered."""
        choose = self._choose
        version = choose.version(ApiKey.CONSUMER_GROUP_HEARTBEAT)
        rack = f"rack-{member.name[2:]}"
        self._asked[rack] = member
        fields: dict[str, Plain] = {
            "group_id": choose.one((60, member.group), (0.5, "")),
            "member_id": choose.one((60, member.id), (0.5, "stranger")),
            "member_epoch": member.epoch + choose.one((30, 0), (1, 1), (1, -1)),
            "instance_id": member.instance,
            "rack_id": rack,
            **more,
        }
        return draft(ApiKey.CONSUMER_GROUP_HEARTBEAT, version, **fields)

    def _join(self, member: Member) -> Step:
        choose = self._choose
        version = choose.version(ApiKey.CONSUMER_GROUP_HEARTBEAT)
        step = self._send(
            member,
            member_id=member.id or (member.name if version >= 1 else ""),
            member_epoch=0,
            rebalance_timeout_ms=choose.one((30, _REBALANCE_MS), (0.5, -1)),
            subscribed_topic_names=self._subscription(),
            server_assignor=self._assignor(),
            topic_partitions=choose.one((30, []), (0.5, None)),
        )
        return draft(step.api, version, **step.fields)

    def _subscription(self) -> list[str]:
        return self._choose.one(
            (6, ["consumed-t"]),
            (6, ["consumed-t", "consumed-u"]),
            (2, ["consumed-u"]),
            (1, ["consumed-u", "@missing"]),
            (1, []),
        )

    def _assignor(self) -> str | None:
        return self._choose.one((6, None), (3, "uniform"), (3, "range"), (0.5, "other"))

    def _heartbeat(self, member: Member) -> Step:
        if self._choose.seldom(3):
            return self._send(member)
        return self._send(
            member,
            rebalance_timeout_ms=_REBALANCE_MS,
            topic_partitions=[
                {"topic_id": each["topic_id"], "partitions": each["partitions"]}
                for each in member.assigned
            ],
        )

    def _change(self, member: Member) -> Step:
        return self._send(
            member,
            subscribed_topic_names=self._choose.one((5, self._subscription()), (1, None)),
            server_assignor=self._assignor(),
        )

    def _leave(self, member: Member) -> Step:
        return self._send(member, member_epoch=self._choose.one((3, -1), (2, -2), (0.3, -3)))

    def _commit(self, member: Member) -> Step:
        choose, random = self._choose, self._random
        version = choose.version(ApiKey.OFFSET_COMMIT)
        topics = [
            {
                **self._topic(version, name),
                "partitions": [
                    {
                        "partition_index": index,
                        "committed_offset": random.choice([0, 1, 5]),
                        "committed_leader_epoch": random.choice([-1, 0]),
                        "committed_metadata": choose.one((5, "m"), (2, "")),
                    }
                    for index in choose.some([0, 1, 7], [9, 6, 1], at_most=2)
                ],
            }
            for name in choose.some(["consumed-t", "@missing"], [9, 1], at_most=2)
        ]
        return draft(
            ApiKey.OFFSET_COMMIT,
            version,
            group_id=member.group,
            generation_id_or_member_epoch=member.epoch + choose.one((20, 0), (2, -1), (1, 1)),
            member_id=choose.one((20, member.id), (1, "stranger"), (1, "")),
            group_instance_id=member.instance if version >= 7 else None,
            topics=topics,
        )

    # Moves of others

    def _topic(self, version: int, name: str) -> dict[str, Plain]:
        if version < 10:
            return {"name": name}
        return {"topic_id": self._ids.get(name, Id("uuid", -1, 0))}

    def _group(self) -> str:
        return self._choose.one((6, "@g"), (3, "@h"), (1, "@nobody"), (0.3, ""))

    def _describe(self) -> Step:
        return draft(
            ApiKey.CONSUMER_GROUP_DESCRIBE,
            self._choose.version(ApiKey.CONSUMER_GROUP_DESCRIBE),
            group_ids=[self._group() for _ in range(self._random.choice([1, 1, 2]))],
            include_authorized_operations=self._choose.seldom(2),
        )

    def _describe_classic(self) -> Step:
        version = self._choose.version(ApiKey.DESCRIBE_GROUPS)
        return draft(ApiKey.DESCRIBE_GROUPS, version, groups=[self._group()])

    def _list(self) -> Step:
        choose = self._choose
        return draft(
            ApiKey.LIST_GROUPS,
            choose.version(ApiKey.LIST_GROUPS),
            states_filter=choose.one((3, []), (1, ["Stable"]), (1, ["assigning", "Reconciling"])),
            types_filter=choose.one((3, []), (1, ["classic"]), (1, ["consumer"])),
        )

    def _delete(self) -> Step:
        version = self._choose.version(ApiKey.DELETE_GROUPS)
        return draft(ApiKey.DELETE_GROUPS, version, groups_names=[self._group()])

    def _fetch_offsets(self) -> Step:
        choose = self._choose
        version = max(8, choose.version(ApiKey.OFFSET_FETCH))
        member = self._random.choice(self._members)
        topics = [{**self._topic(version, "consumed-t"), "partition_indexes": [0, 1, 7]}]
        asker = choose.one((5, member.id or None), (3, None), (0.5, "stranger"))
        asked = {
            "group_id": member.group,
            "topics": choose.one((3, topics), (1, None)),
            "member_id": asker,
            # Kafka does not expect the epoch of no member.
            "member_epoch": -1 if asker is None else choose.one((8, member.epoch), (3, -1)),
        }
        return draft(ApiKey.OFFSET_FETCH, version, groups=[asked])

    def _delete_offsets(self) -> Step:
        partitions = [{"partition_index": index} for index in (0, 7)]
        topics = [{"name": name, "partitions": partitions} for name in ("consumed-t", "consumed-u")]
        return draft(ApiKey.OFFSET_DELETE, 0, group_id=self._group(), topics=topics)
