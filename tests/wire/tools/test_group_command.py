"""Kafka's own ConsumerGroupCommand shows groups of both protocols as they are."""

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer

from tests.java_tools.command_line import run_tool
from tests.wire.clients import Cluster, create_topic, open_consumer, poll, produce_values

pytestmark = [pytest.mark.java, pytest.mark.gate]

Unique = Callable[[str], str]
Row = dict[str, str]
COMMAND = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


class Groups:
    """A classic group and a consumer group with one member each, which have read a topic."""

    def __init__(self, cluster: Cluster, topic: str, classic: str, consumer: str) -> None:
        self.cluster = cluster
        self.topic = topic
        self.classic = classic
        self.consumer = consumer
        self._members = [self._read(classic, "classic"), self._read(consumer, "consumer")]

    def _read(self, group: str, protocol: str) -> Consumer:
        member = open_consumer(
            self.cluster, group_id=group, group_protocol=protocol, client_id=f"{protocol}-client"
        )
        member.subscribe([self.topic])
        poll(member, 3)
        member.commit(asynchronous=False)
        return member

    def close(self) -> None:
        members, self._members = self._members, []
        for member in members:
            member.close()

    def run(self, *arguments: str) -> str:
        """Runs the command, on both groups unless it names some, and returns its output."""
        groups = [] if {"--group", "--list"} & set(arguments) else self._both
        servers = ("--bootstrap-server", self.cluster.bootstrap_servers)
        return run_tool(COMMAND, *servers, *arguments, *groups)

    def offsets(self) -> dict[tuple[str, str], Row]:
        """Rows by group and partition."""
        printed = self.run("--describe", "--offsets")
        return {(row["GROUP"], row["PARTITION"]): row for row in rows(printed)}

    @property
    def _both(self) -> list[str]:
        return ["--group", self.classic, "--group", self.consumer]


@pytest.fixture
def groups(cluster: Cluster, unique: Unique) -> Iterator[Groups]:
    topic = create_topic(cluster, unique("read"), partitions=2)
    produce_values(cluster, topic, b"a", b"b", b"c")
    groups = Groups(cluster, topic, unique("classic"), unique("consumer"))
    yield groups
    groups.close()


def rows(printed: str) -> Iterator[Row]:
    """The rows of the tables in an output.

    Cells are matched from the right: a coordinator takes two cells, its address and its id, under
    one heading.
    """
    heading: list[str] = []
    for line in printed.splitlines():
        cells = line.replace("COORDINATOR (ID)", "COORDINATOR").split()
        if not cells or cells[0] in ("GROUP", "TOPIC"):
            heading = cells
        elif heading:
            row = dict(zip(reversed(heading), reversed(cells), strict=False))
            yield {**row, heading[0]: cells[0]}


def test_groups_are_shown_with_members_offsets_and_state(groups: Groups) -> None:
    listed = {row["GROUP"]: row for row in rows(groups.run("--list", "--state", "--type"))}
    for group, kind in ((groups.classic, "Classic"), (groups.consumer, "Consumer")):
        assert (listed[group]["TYPE"], listed[group]["STATE"]) == (kind, "Stable")

    printed = groups.run("--describe", "--members", "--verbose")
    members = {row["GROUP"]: row for row in rows(printed)}
    for group, client in ((groups.classic, "classic"), (groups.consumer, "consumer")):
        row = members[group]
        assert (row["CLIENT-ID"], row["HOST"]) == (f"{client}-client", "/127.0.0.1")
        assert (row["#PARTITIONS"], row["CURRENT-ASSIGNMENT"]) == ("2", f"{groups.topic}:0,1")
    assert members[groups.consumer]["TARGET-ASSIGNMENT"] == f"{groups.topic}:0,1"
    assert members[groups.classic]["TARGET-ASSIGNMENT"] == "-"

    offsets = groups.offsets()
    for group in (groups.classic, groups.consumer):
        read = offsets[group, "0"]
        assert (read["CURRENT-OFFSET"], read["LOG-END-OFFSET"], read["LAG"]) == ("3", "3", "0")
        assert read["CONSUMER-ID"] == members[group]["CONSUMER-ID"]
        assert offsets[group, "1"]["CURRENT-OFFSET"] == "-"

    states = {row["GROUP"]: row for row in rows(groups.run("--describe", "--state"))}
    for group, strategy in ((groups.classic, "range"), (groups.consumer, "uniform")):
        row = states[group]
        assert (row["ASSIGNMENT-STRATEGY"], row["STATE"]) == (strategy, "Stable")
        assert row["#MEMBERS"] == "1"


def test_offsets_are_reset_and_deleted_and_groups_go(groups: Groups) -> None:
    assert groups.run("--delete").count("GroupNotEmptyException") == 2
    groups.close()
    groups.run("--reset-offsets", "--to-offset", "1", "--execute", "--topic", groups.topic)
    both = (groups.classic, groups.consumer)
    offsets = groups.offsets()
    assert [offsets[group, "0"]["CURRENT-OFFSET"] for group in both] == ["1", "1"]

    for group in both:
        deleted = groups.run("--delete-offsets", "--topic", groups.topic, "--group", group)
        assert {row["STATUS"] for row in rows(deleted)} == {"Successful"}
    assert "was successful" in groups.run("--delete")
    left = {row["GROUP"] for row in rows(groups.run("--list", "--state"))}
    assert not left & set(both)
