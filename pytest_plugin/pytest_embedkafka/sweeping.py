"""Deletes what a test created on a cluster that others use too, and nothing else.

A topic is the test's if it was created through this object, or if workers share the cluster, by a
request of this worker's clients. A group is the test's if it is new and has committed offsets of
such topics only: another user's new group has others. If workers share the cluster, a new group
without offsets is the test's too if this worker's clients have joined it.

Owner: pytest's thread.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from embedkafka.cluster.clients.decoding import Decode
    from embedkafka.wire.net.socket_server import Connection
    from pytest_embedkafka.run_cluster import RunReach
    from pytest_embedkafka.worker_cluster import WorkerCluster

_LOG = logging.getLogger(__name__)


class Found(NamedTuple):
    """What there is at one moment."""

    topics: frozenset[str]
    """Those that this run has created through the object."""
    all_topics: frozenset[str]
    """Those of other workers too, if workers share the cluster."""
    groups: frozenset[str]
    """All groups of the cluster."""
    connections: "Mapping[str, Connection]"
    """Of this worker's clients, if workers share the cluster; those of others are not visible."""
    decoders: "Mapping[str, Decode]"


class Sweeper:
    """The isolation of an external cluster."""

    def __init__(
        self,
        reach: "RunReach",
        remove: Callable[[Sequence[str]], None],
        worker: "WorkerCluster | None" = None,
    ) -> None:
        """`remove` deletes topics.

        `worker` is there if the cluster belongs to all workers of the run.
        """
        self._reach = reach
        self._remove = remove
        self._decoders = reach.clients.decoders
        self._view = reach.clients.view()
        self._worker = worker
        self._before: Found | None = None

    def begin(self) -> None:
        self._before = self.look()
        if self._worker is not None:
            self._worker.begin()

    def end(self, *, finds_clients: bool) -> list[str]:
        """Deletes the test's topics and groups; warns of those that cannot be deleted.

        Returns the groups that have members, and on a cluster that workers share, the clients that
        are still connected.
        """
        before, self._before = self._before, None
        if before is None:
            return []
        self._decoders.restore(before.decoders)
        created = self._reach.created - before.topics
        made = self._made_by_clients(before) - created
        topics = created | made
        leaks = [f"group {name} has members" for name in self._sweep_groups(before, topics)]
        if finds_clients and self._worker is not None:
            from embedkafka.cluster.restoring.connections import find_left_connected

            leaks += find_left_connected(self._worker.connections, before.connections)
        self._remove([*sorted(created), *sorted(made)])  # created ones may go by another's name
        return leaks

    def keep(self) -> None:
        self._before = None

    def look(self) -> Found:
        connections = {} if self._worker is None else self._worker.connections()
        return Found(
            frozenset(self._reach.created),
            self._all_topics(),
            self._groups(),
            connections,
            self._decoders.all(),
        )

    def adopt(self, earlier: Found) -> None:
        from embedkafka.cluster.clients.decoding import decoders_since

        before, now = self._before, self.look()
        if before is not None:
            self._before = Found(
                before.topics | (now.topics - earlier.topics),
                before.all_topics | (now.all_topics - earlier.all_topics),
                before.groups | (now.groups - earlier.groups),
                {
                    **before.connections,
                    **dict(now.connections.items() - earlier.connections.items()),
                },
                {**before.decoders, **decoders_since(earlier.decoders, now.decoders)},
            )

    def _all_topics(self) -> frozenset[str]:
        return frozenset(() if self._worker is None else self._reach.polled.topics())

    def _made_by_clients(self, before: Found) -> frozenset[str]:
        """The new topics that requests of this worker have created."""
        new = self._all_topics() - before.all_topics
        return self._worker.made(new) if new and self._worker is not None else frozenset()

    def _groups(self) -> frozenset[str]:
        try:
            return self._view.group_names()
        except Exception as error:  # the client's own kinds; the user may not list groups
            _LOG.info("groups are left alone: %s", error)
            return frozenset()

    def _sweep_groups(self, before: Found, topics: set[str]) -> list[str]:
        """Deletes the test's groups; returns those that are in use."""
        if not topics and self._worker is None:
            return []
        new = sorted(self._groups() - before.groups)
        joined = self._worker.joined(new) if new and self._worker is not None else frozenset()
        return [name for name in new if not self._sweep(name, topics, joined)]

    def _sweep(self, group: str, topics: set[str], joined: Collection[str]) -> bool:
        """Deletes a group if it is the test's; false if it is in use."""
        try:
            committed = {each.topic for each in self._view.committed(group)}
            if not committed <= topics or not (committed or group in joined):
                return True
            _, members = self._view.state_of(group)
            if members:
                return False
            self._view.delete_group(group)
        except Exception as error:  # the client's own kinds; the next test must run
            _LOG.warning("group %s of a test could not be deleted: %s", group, error)
        return True
