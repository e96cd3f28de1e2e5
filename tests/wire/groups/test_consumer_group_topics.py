"""The topics that members of consumer groups (KIP-848) subscribe to, and how they share them."""

import uuid
from collections.abc import Callable, Sequence

import pytest

from embedkafka.wire.protocol.errors import ErrorCode
from tests.wire.clients import Cluster, create_topic, eventually
from tests.wire.conftest import SHARED_CONFIG
from tests.wire.consumer_members import JOIN, Member, describe, settle
from tests.wire.one_partition import Answer
from tests.wire.one_partition import describe as describe_topic
from tests.wire.raw_client import RawClient

Unique = Callable[[str], str]


def join_by_regex(member: Member, regex: str) -> Answer:
    return member.beat(
        member_epoch=JOIN,
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=[],
        subscribed_topic_regex=regex,
        topic_partitions=[],
    )


@pytest.mark.parametrize(
    ("regex", "names"),
    [
        ("{}-.*", ["{}-a", "{}-b"]),
        ("{}", []),
        (r"{}-\pL", ["{}-a", "{}-b"]),
        (r"\Q{}-a\E", ["{}-a"]),
        ("{}-[[:alpha:]]", ["{}-a", "{}-b"]),
        (r"(?P<name>{})-(b|c)\z", ["{}-b"]),
    ],
)
def test_a_regular_expression_stands_for_the_topics_it_matches(
    cluster: Cluster, raw: RawClient, unique: Unique, regex: str, names: Sequence[str]
) -> None:
    stem = unique("re")
    ids = {}
    for name in (f"{stem}-a", f"{stem}-b"):
        create_topic(cluster, name)
        ids[describe_topic(raw, name).topic_id] = name
    member = Member(raw, unique("group"))
    assert join_by_regex(member, regex.format(stem)).error_code == ErrorCode.NONE
    settle([member], [len(names)])
    assert sorted(ids[topic] for topic in member.owned) == [name.format(stem) for name in names]
    (described,) = describe(raw, member.group).members
    assert described.subscribed_topic_regex == regex.format(stem)


@pytest.mark.parametrize(
    ("regex", "complaint"),
    [
        ("[", "missing closing ]"),
        ("(?=a).*", "invalid or unsupported Perl syntax"),
        ("(?!a).*", "invalid or unsupported Perl syntax"),
        ("(?<=a)b", "invalid named capture"),
        (r"(a)\1", "invalid escape sequence"),
        (r"a\Z", "invalid escape sequence"),
        ("a++", "invalid nested repetition operator"),
        ("*", "missing argument to repetition operator"),
    ],
)
def test_what_re2_does_not_know_is_refused(
    raw: RawClient, unique: Unique, regex: str, complaint: str
) -> None:
    answer = join_by_regex(Member(raw, unique("group")), regex)
    assert (answer.error_code, answer.error_message) == (
        ErrorCode.INVALID_REGULAR_EXPRESSION,
        f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {complaint}.",
    )


class Team:
    """Members with ids in a known order, each with its own subscription."""

    def __init__(self, raw: RawClient, group: str, assignor: str) -> None:
        self._raw = raw
        self._group = group
        self._assignor = assignor
        self.members: list[Member] = []

    def join(self, *topics: str, instance: str | None = None) -> None:
        """Adds a member and lets all members heartbeat until the group is stable."""
        member = Member(self._raw, self._group, *topics, instance=instance)
        member.id = str(uuid.UUID(int=len(self.members) + 1))
        self.members.append(member)
        assert member.join(server_assignor=self._assignor).error_code == ErrorCode.NONE
        eventually(self._is_settled, "the group is stable")

    def _is_settled(self) -> bool:
        for member in self.members:
            assert member.beat_with_owned().error_code == ErrorCode.NONE
        return bool(describe(self._raw, self._group).group_state == "Stable")

    def owned(self, topic: str) -> list[list[int]]:
        topic_id = describe_topic(self._raw, topic).topic_id
        return [sorted(member.owned.get(topic_id, [])) for member in self.members]


@pytest.fixture
def topics(cluster: Cluster, unique: Unique) -> list[str]:
    """Two topics with five partitions each."""
    return [create_topic(cluster, unique("shared"), partitions=5) for _ in range(2)]


def test_range_gives_the_same_slices_of_topics_alike(
    raw: RawClient, unique: Unique, topics: Sequence[str]
) -> None:
    team = Team(raw, unique("group"), "range")
    slices = ([[0, 1, 2, 3, 4]], [[0, 1, 2], [3, 4]], [[0, 1], [2, 3], [4]])
    for expected in slices:
        team.join(*topics)
        assert [team.owned(topic) for topic in topics] == [expected] * 2


def test_range_slices_a_topic_among_its_own_subscribers(
    raw: RawClient, unique: Unique, topics: Sequence[str]
) -> None:
    team = Team(raw, unique("group"), "range")
    first, second = topics
    team.join(first)
    team.join(first, second)
    team.join(second)
    assert team.owned(first) == [[0, 1, 2], [3, 4], []]
    assert team.owned(second) == [[], [0, 1, 2], [3, 4]]


def test_range_lines_static_members_up_by_instance(
    raw: RawClient, unique: Unique, topics: Sequence[str]
) -> None:
    team = Team(raw, unique("group"), "range")
    for instance in ("z", None, "a"):
        team.join(topics[0], instance=instance)
    assert team.owned(topics[0]) == [[2, 3], [4], [0, 1]]


def test_uniform_is_even_and_moves_little(
    raw: RawClient, unique: Unique, topics: Sequence[str]
) -> None:
    team = Team(raw, unique("group"), "uniform")
    before: list[set[tuple[str, int]]] = []
    for shares in ([10], [5, 5], [3, 3, 4], [2, 2, 3, 3]):
        team.join(*topics)
        columns = [team.owned(topic) for topic in topics]
        after = [
            {(topic, p) for topic, owned in zip(topics, columns, strict=True) for p in owned[place]}
            for place in range(len(shares))
        ]
        assert sorted(map(len, after)) == shares
        for kept, had in zip(after, before, strict=False):
            assert kept <= had, "partitions moved between old members"
        before = after


def test_a_full_group_takes_nobody_else(raw: RawClient, unique: Unique, topics: list[str]) -> None:
    group = unique("group")
    size = int(str(SHARED_CONFIG["group.consumer.max.size"]))
    members = [Member(raw, group, topics[0]) for _ in range(size)]
    for member in members:
        assert member.join().error_code == ErrorCode.NONE
    refused = Member(raw, group, topics[0]).join()
    assert (refused.error_code, refused.error_message) == (
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        f"The consumer group has reached its maximum capacity of {size} members.",
    )
    members[0].leave()
    assert Member(raw, group, topics[0]).join().error_code == ErrorCode.NONE
