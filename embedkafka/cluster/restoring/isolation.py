"""Puts a cluster right after a test: what the test made goes, what it broke works again.

`begin` notes what there is; `end` compares. Most tests use topics and records only. For them `end`
deletes the new topics and looks at values in memory. The requests that came in between tell whether
groups or transactions may have changed too, and only then it asks for them.

Owner: the thread of the test.
Invariants: what was there at `begin` stays, and so does what was broken then. Records and
partitions that were added to a topic that stays are left, unless the cluster was made with it.
Not here: what to undo, and in which order (`undoing`), emptying a whole cluster (`reset`), earlier
states (`snapshot`).
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from embedkafka.broker.api_table import SERVED
from embedkafka.cluster.brokers import Brokers
from embedkafka.cluster.reports.description import find_views
from embedkafka.cluster.resources import NOT_RUNNING
from embedkafka.cluster.restoring.connections import find_connections, find_left_connected
from embedkafka.cluster.restoring.coordinated import (
    Coordinated,
    find_coordinated,
    forget_coordinated,
)
from embedkafka.cluster.restoring.other_state import (
    find_other_state,
    forget_refusals,
    restore_controller,
    restore_other_state,
)
from embedkafka.cluster.restoring.placements import placements_of, restore_placements
from embedkafka.cluster.restoring.removal import removing_topics
from embedkafka.cluster.restoring.reset import delete_topics
from embedkafka.cluster.restoring.snapshot import Snapshots
from embedkafka.cluster.restoring.undoing import (
    Aspect,
    Entity,
    Footprint,
    Health,
    Undo,
    plan,
    plan_mending,
)
from embedkafka.faults.links import LinkFault
from embedkafka.faults.request_faults import Fault
from embedkafka.runtime.failures import AwaitTimeout, ClusterClosed, EmbedKafkaError
from embedkafka.runtime.ids import BrokerId, TopicPartition
from embedkafka.runtime.topic_names import INTERNAL_TOPICS
from embedkafka.wire.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from embedkafka.security.acl.acls import Acl

_LOG = logging.getLogger(__name__)

_HARMLESS: Final = frozenset(api for api, row in SERVED.items() if row.changes_topics_only)
"""Requests that change topics and records alone, or nothing."""

_NOT_TRANSACTIONAL: Final = frozenset(ApiKey) - {ApiKey.INIT_PRODUCER_ID}
"""All requests but the one that transactional and idempotent producers begin with."""

_SETTLING_S: Final = 10.0

_BREAKING: Final = {Aspect.NETWORK, Aspect.STALLED_BROKERS, Aspect.DEAD_BROKERS}
"""After these, coordinators may be others, and know others."""


class Isolation:
    """What a test does to one cluster, undone: `with kafka.isolated():`."""

    def __init__(
        self,
        brokers: Brokers,
        snapshots: Snapshots,
        *,
        own_topics: Collection[str],
        create: Callable[[Collection[str]], None],
        forget: Callable[[str], None],
        scratch: Path,
    ) -> None:
        """`create` makes topics of the cluster's own again; `forget` hears of deleted ones."""
        self._brokers = brokers
        self._snapshots = snapshots
        self._own_topics = own_topics
        self._create = create
        self._forget = forget
        self._scratch = scratch
        self._files = brokers.files
        self._before: Footprint | None = None
        self._coordinated: Coordinated | None = None
        self._incarnation_count = brokers.incarnation_count

    def __enter__(self) -> Self:
        self.begin()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.end(finds_clients=False)

    def begin(self) -> None:
        """Notes what there is. What comes from now on belongs to the test."""
        if self._brokers.is_closed:
            raise ClusterClosed(NOT_RUNNING)
        self._before = self.look()
        self._incarnation_count = self._brokers.incarnation_count
        self._brokers.request_log.forget()
        forget_refusals(self._brokers)

    def end(self, *, finds_clients: bool) -> list[str]:
        """Puts the cluster right, and returns what was still in use. A second call does nothing.

        `finds_clients` says whether clients that are still connected are the test's.
        """
        before, self._before = self._before, None
        if before is None or self._brokers.is_closed:
            return []
        with removing_topics(self._brokers):
            return self._put_right(before, finds_clients=finds_clients)

    def _put_right(self, before: Footprint, *, finds_clients: bool) -> list[str]:
        brokers = self._brokers
        brokers.drop_held_requests()
        health = self._look_at_health()
        if mending := plan_mending(before, health):
            self._carry_out(mending)
            health = self._look_at_health()
        if _BREAKING & {undo.aspect for undo in mending}:
            self._coordinated = None
        now = self._look(health, is_well=before.health.working == before.health.brokers)
        undos = plan(before, now)
        leaks = self._carry_out(
            undo for undo in undos if finds_clients or undo.aspect is not Aspect.CLIENTS
        )
        brokers.drop_held_requests()  # whose replies were dropped since the faults ended
        brokers.request_log.forget()
        return leaks

    def keep(self) -> None:
        """Lets all that came since `begin` stay."""
        self._before = None

    def adopt(self, earlier: Footprint) -> None:
        """Keeps state created since `earlier`; its fixture outlives the test."""
        if self._before is not None:
            self._before = self._before.with_news(earlier, self.look())

    # -- looking

    def look(self) -> Footprint:
        """What there is now."""
        health = self._look_at_health()
        return self._look(health, is_well=health.working == health.brokers)

    def _look_at_health(self) -> Health:
        brokers = self._brokers
        topics = brokers.zk.topic_assignments(brokers.zk.topics())
        return Health(
            topics={name: topic.topic_id for name, topic in topics.items()},
            deletions=brokers.zk.topic_deletions(),
            placements=placements_of(topics),
            faults=frozenset(brokers.faults.standing),
            has_disk_faults=brokers.faults.has_disk_faults,
            sides=brokers.network.sides,
            brokers=frozenset(handle.id for handle in brokers.all()),
            running=frozenset(handle.id for handle in brokers.running()),
            working=frozenset(
                handle.id
                for handle in brokers.running()
                if handle.has_all_disks and not handle.is_paused
            ),
            has_transacted=not brokers.request_log.has_only(_NOT_TRANSACTIONAL),
        )

    def _look(self, health: Health, *, is_well: bool) -> Footprint:
        brokers = self._brokers
        if self._coordinated is None or not self._used_only_topics():
            self._coordinated = self._ask_coordinators(is_well=is_well)
        return Footprint(
            health=health,
            empty=self._empty_topics(),
            settings=brokers.zk.overrides(),
            acls=self._find_acls(),
            coordinated=self._coordinated,
            is_real_time=brokers.clock.describe() is None,
            scratch=self._scratch_names(),
            connections=find_connections(brokers),
            decoders=brokers.decoders.all(),
            other=find_other_state(brokers, self._snapshots),
        )

    def _used_only_topics(self) -> bool:
        """Since `begin`. A broker that started may have found earlier groups and settings."""
        return (
            self._brokers.incarnation_count == self._incarnation_count
            and self._brokers.request_log.has_only(_HARMLESS)
        )

    def _ask_coordinators(self, *, is_well: bool) -> Coordinated:
        """All groups and transactional ids; in a broken cluster, those within reach.

        A coordinator that has just started, or been elected, must know that it is one.
        """
        brokers = self._brokers
        if is_well:
            led = brokers.state.led(INTERNAL_TOPICS)
            with suppress(AwaitTimeout):  # it is broken in another way
                brokers.waiting.await_state("all coordinators", led, _SETTLING_S)
        return find_coordinated(brokers)

    def _empty_topics(self) -> dict[str, int]:
        if not self._own_topics:
            return {}
        views = find_views(self._brokers.live())
        used = {view.topic_partition.topic for view, _ in views if view.log_end_offset}
        found = self._brokers.zk.topic_assignments(self._own_topics)
        return {name: len(topic.partitions) for name, topic in found.items() if name not in used}

    def _find_acls(self) -> "frozenset[Acl] | None":
        brokers = self._brokers.running()
        if not brokers or brokers[0].require_broker().authorizer is None:
            return None
        from embedkafka.cluster.access.acls import Acls  # most clusters have none

        return frozenset(Acls(self._brokers).all())

    def _scratch_names(self) -> frozenset[str]:
        exists = self._files.exists(self._scratch)
        return frozenset(self._files.names(self._scratch) if exists else ())

    # -- undoing

    def _carry_out(self, undos: Iterable[Undo]) -> list[str]:
        """Returns what was still in use."""
        steps: Mapping[Aspect, Callable[[Any], list[str] | None]] = {  # Any: each knows its own
            Aspect.FAULTS: self._end_faults,
            Aspect.DISKS: lambda _: self._brokers.faults.heal_disks(),
            Aspect.NETWORK: lambda _: self._brokers.heal(),
            Aspect.STALLED_BROKERS: self._brokers.revive,
            Aspect.DEAD_BROKERS: self._replace_dead,
            Aspect.MEMBERSHIP: self._await_membership,
            Aspect.PLACEMENTS: partial(restore_placements, self._brokers),
            Aspect.COORDINATED: self._forget_coordinated,
            Aspect.SETTINGS: self._restore_settings,
            Aspect.LOGINS: self._brokers.set_revoked,
            Aspect.ADDED_BROKERS: self._remove_brokers,
            Aspect.CLIENTS: partial(find_left_connected, partial(find_connections, self._brokers)),
            Aspect.ACLS: self._restore_acls,
            Aspect.TOPICS: self._delete_topics,
            Aspect.OWN_TOPICS: self._renew_topics,
            Aspect.CONTROLLER: partial(restore_controller, self._brokers),
            Aspect.LEADERS: self._restore_leaders,
            Aspect.CLOCK: lambda _: self._brokers.clock.reset(),
            Aspect.OTHER: partial(restore_other_state, self._brokers, self._snapshots),
            Aspect.SCRATCH: self._clear_scratch,
            Aspect.DECODERS: self._brokers.decoders.restore,
        }
        return [leak for undo in undos for leak in steps[undo.aspect](undo.what) or ()]

    def _end_faults(self, faults: Collection[Fault | LinkFault]) -> None:
        for fault in faults:
            fault.remove()

    def _replace_dead(self, plan: tuple[Collection[BrokerId], Collection[str]]) -> None:
        dead, doomed = plan
        self._brokers.bury(dead, doomed)
        if any(not handle.is_paused and handle.has_all_disks for handle in self._brokers.running()):
            self._delete_topics(doomed)
        self._brokers.revive(dead)

    def _await_membership(self, _: object = None) -> None:
        brokers = self._brokers
        brokers.waiting.await_state("all brokers to know each other", brokers.state.membership())

    def _forget_coordinated(self, new: Coordinated) -> list[str]:
        """Returns the groups that had members, and the transactions that were open."""
        forget_coordinated(self._brokers, new)
        self._coordinated = None
        return [
            *(f"group {group} has members" for group in new.stable_groups),
            *(f"transaction {name} is open" for name in new.open_transactions),
        ]

    def _restore_settings(self, settings: Mapping[Entity, Mapping[str, str]]) -> None:
        for (entity_type, name), wanted in settings.items():
            for handle in self._brokers.running():
                handle.require_broker().config.set_overrides(entity_type, name, wanted)

    def _remove_brokers(self, added: Collection[BrokerId]) -> None:
        for broker_id in added:
            self._brokers.remove(broker_id)
        self._await_membership()

    def _restore_acls(self, acls: "Collection[Acl]") -> None:
        from embedkafka.cluster.access.acls import Acls  # most clusters have none

        Acls(self._brokers).replace(acls)

    def _delete_topics(self, doomed: Collection[str]) -> None:
        if not doomed:
            return
        for name in doomed:
            self._forget(name)
        try:
            delete_topics(self._brokers, doomed)
        except EmbedKafkaError as error:
            _LOG.warning("topics of the last test could not be deleted: %s", error)

    def _renew_topics(self, names: Collection[str]) -> None:
        """Makes the cluster's own topics as empty as they were."""
        delete_topics(self._brokers, names)
        self._create(names)

    def _restore_leaders(self, _: object) -> None:
        """Waits until every replica is in sync, and lets the preferred ones lead.

        Leaders stay elsewhere if the test itself has brought back what it broke.
        """
        brokers = self._brokers
        brokers.waiting.await_state(
            "all replicas in sync", brokers.state.nothing_under_replicated()
        )
        displaced = [
            TopicPartition(status.topic, status.partition)
            for status in brokers.state.partitions()
            if status.leader != status.replicas[0]
        ]
        if displaced:
            brokers.zk.create_preferred_election(displaced)
            brokers.waiting.await_state("the preferred leaders", brokers.state.preferred_lead())

    def _clear_scratch(self, names: Collection[str]) -> None:
        for name in names:
            self._files.remove_tree(self._scratch / name)
