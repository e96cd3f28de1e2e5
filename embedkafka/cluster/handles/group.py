"""`GroupHandle`: one consumer group as a test holds it.

Not here: its state as values (`group_status`), how it is asked for (`client_view`).
"""

from typing import TYPE_CHECKING, NoReturn

from embedkafka.cluster.handles.coordinators import group_coordinator
from embedkafka.cluster.waiting import PATIENCE_S
from embedkafka.runtime.arguments import require_text

if TYPE_CHECKING:
    from embedkafka.cluster.clients.group_status import GroupStatus
    from embedkafka.cluster.handles.reach import ClusterReach
    from embedkafka.runtime.ids import TopicPartition


class GroupHandle:
    """A consumer group of a running cluster, of either protocol. `kafka.group` returns it.

        billing = kafka.group("billing")
        billing.await_lag(0)
        assert billing.status().state == "Stable"

    The group need not exist: clients make it, and a group that is gone is "Dead".
    """

    def __init__(self, name: str, reach: "ClusterReach") -> None:
        self._name = require_text("group", name)
        self._reach = reach

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name!r})"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            __tracebackhide__ = True
            from embedkafka.cluster.handles.moved import refuse_missing

            refuse_missing(self, name, "group")

    @property
    def name(self) -> str:
        """The group's id."""
        return self._name

    def status(self) -> "GroupStatus":
        """Its state, its members and what each of them has, its committed offsets and its lag."""
        return self._reach.clients.view().group(self._name)

    def lag(self, topic: str | None = None) -> "dict[TopicPartition, int]":
        """How many offsets the group is behind, for each partition.

            assert sum(kafka.group("billing").lag().values()) == 0

        Args:
            topic: a topic whose partitions count, also where the group has committed nothing yet.
                By default the partitions that it has committed offsets for.

        Raises:
            InvalidArgument: there is no such topic.
            EmbedKafkaError: the coordinator refused, as it does for an id that is too long.
        """
        return self._reach.clients.view().lag(self._name, self._known(topic))

    def coordinator(self) -> int:
        """The id of the broker that coordinates the group.

            kafka.broker(kafka.group("readers").coordinator()).kill()

        Raises:
            InvalidArgument: no client has used groups yet.
            EmbedKafkaError: there is no coordinator now.
        """
        return group_coordinator(self._reach.state, self._name)

    def await_state(
        self,
        state: str | None = None,
        *,
        members: int | None = None,
        timeout_s: float = PATIENCE_S,
    ) -> "GroupStatus":
        """Waits until the group is in a state, with so many members.

            kafka.group("billing").await_state(members=2)  # both have their partitions

        Args:
            state: Kafka's name of the state, such as "Stable", "Empty" or "Dead" (there is no such
                group); "Stable" by default, and any state if `members` is 0.
            members: the number of members; any number by default.
            timeout_s: how long to wait, in seconds of real time.

        Returns:
            The group right after that, with its members and what each of them has.

        Raises:
            AwaitTimeout: it did not happen in that time; the message shows the group.
        """
        waits = self._reach.clients.waits()
        waits.await_group(self._name, members=members, state=state, timeout_s=timeout_s)
        return self.status()

    def await_stable(self, *, timeout_s: float = PATIENCE_S) -> "GroupStatus":
        """Waits until the group has members and none of them awaits a rebalance.

        Args:
            timeout_s: how long to wait, in seconds of real time.

        Returns:
            The group, with its members and what each of them has.

        Raises:
            AwaitTimeout: it did not happen in that time; the message shows the group.
        """
        return self.await_state(timeout_s=timeout_s)

    def await_lag(
        self, lag: int = 0, *, topic: str | None = None, timeout_s: float = PATIENCE_S
    ) -> None:
        """Waits until the group's committed offsets are at most `lag` behind the ends.

        Args:
            lag: how many offsets it may be behind, over all partitions.
            topic: a topic whose partitions count, also where the group has committed nothing yet.
                By default the partitions that it has committed offsets for.
            timeout_s: how long to wait, in seconds of real time.

        Raises:
            AwaitTimeout: it did not happen in that time; the message shows the lag.
        """
        waits = self._reach.clients.waits()
        waits.await_lag(self._name, lag, topic=self._known(topic), timeout_s=timeout_s)

    def _known(self, topic: str | None) -> str | None:
        return self._reach.known_name(topic) if isinstance(topic, str) else topic
