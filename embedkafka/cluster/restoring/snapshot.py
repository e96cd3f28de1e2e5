"""Snapshots: puts a whole cluster back to an earlier state, in the time of a restart.

A snapshot holds what the disks and ZooKeeper would hold if all brokers had stopped at one moment.
Clients get no answers while it is taken, so it contains everything acknowledged before. ZooKeeper
is read before and after the logs are copied: if a leader or an in-sync set changed in between, the
copies could contradict it, and are made again.

Owner: the thread that takes and restores them, one at a time.
Invariants: a snapshot never changes (see `log.files.copies`) and can be restored many times.
Not here: how logs are copied (`log`), how brokers start (`brokers`).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from embedkafka.broker.log.files.copies import copy_log_dir
from embedkafka.cluster.brokers import Brokers
from embedkafka.cluster.lifecycle.lifecycle import BrokerLifecycle
from embedkafka.runtime.failures import EmbedKafkaError, InvalidArgument
from embedkafka.runtime.ids import BrokerId
from embedkafka.runtime.values import dataclass, field

_ATTEMPTS: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A state of one cluster, for `EmbeddedKafka.restore`. It ends with the cluster."""

    directory: Path
    """The directory with copies of the logs."""
    zookeeper: bytes
    """ZooKeeper's tree."""
    brokers: Sequence[BrokerId]
    """The ids of all brokers."""
    running: Sequence[BrokerId]
    """The ids of the brokers that were running."""
    revoked: Mapping[BrokerId, frozenset[str]] = field(default_factory=dict)
    """Users whose passwords of PLAIN did not count, by broker."""


class Snapshots:
    """Takes and restores the snapshots of one cluster, and keeps them in `directory`."""

    def __init__(self, brokers: Brokers, directory: Path) -> None:
        self._brokers = brokers
        self._directory = directory
        self._files = brokers.files
        self._taken = 0
        self.named: Mapping[str, Snapshot] = {}

    def find(self, name: str) -> Snapshot:
        """The newest snapshot of that name; raises `InvalidArgument` if there is none."""
        found = self.named.get(name)
        if found is None:
            known = ", ".join(map(repr, sorted(self.named))) or "none"
            raise InvalidArgument(
                f"there is no snapshot {name!r}; there are {known}. `kafka.snapshot({name!r})` "
                "takes one"
            )
        return found

    def take(self, name: str | None = None) -> Snapshot:
        """The cluster as it is. Clients stay connected and wait a little."""
        taken = self._take_hushed()
        if name is not None:
            self.named = {**self.named, name: taken}
        return taken

    def _take_hushed(self) -> Snapshot:
        self._taken += 1
        directory = self._directory / str(self._taken)
        handles = self._brokers.all()
        for handle in handles:
            handle.hush()
        try:
            return self._take(directory, handles)
        finally:
            for handle in handles:
                handle.unhush()

    def restore(self, snapshot: Snapshot) -> None:
        """Ends all brokers, puts everything back, and starts those that were running."""
        if snapshot.directory.parent != self._directory:
            raise InvalidArgument("this is a snapshot of another cluster: restore it there")
        self._brokers.at_once(BrokerLifecycle.abandon)
        self._brokers.heal()
        self._brokers.forget({handle.id for handle in self._brokers.all()} - set(snapshot.brokers))
        with self._brokers.ensemble.restoring(snapshot.zookeeper):
            for broker_id in snapshot.brokers:
                for log_dir in self._brokers.log_dirs(broker_id):
                    copy_log_dir(self._files, snapshot.directory / log_dir.name, log_dir)
        self._brokers.boot(snapshot.running)
        self._brokers.set_revoked(snapshot.revoked)

    def _take(self, directory: Path, handles: Sequence[BrokerLifecycle]) -> Snapshot:
        for _ in range(_ATTEMPTS):
            self._files.remove_tree(directory)
            before = self._brokers.ensemble.snapshot()
            for handle in handles:
                self._copy_logs(handle, directory)
            if self._brokers.ensemble.snapshot() == before:
                return Snapshot(
                    directory=directory,
                    zookeeper=before,
                    brokers=[handle.id for handle in handles],
                    running=[handle.id for handle in handles if handle.is_running],
                    revoked=self._brokers.find_revoked(),
                )
        raise EmbedKafkaError(
            "no snapshot: ZooKeeper changed during each of 10 attempts. Wait until elections and "
            "deletions are over"
        )

    def _copy_logs(self, handle: BrokerLifecycle, directory: Path) -> None:
        incarnation = handle.incarnation
        if incarnation is None:
            for log_dir in self._brokers.log_dirs(handle.id):
                if self._files.exists(log_dir):
                    copy_log_dir(self._files, log_dir, directory / log_dir.name)
            return
        try:
            incarnation.broker.logs.copy_to(directory)
            if not handle.has_all_disks:
                raise OSError("a log directory is offline")
        except OSError as error:
            heal, restart = f"faults.disk({handle.id}).heal()", f"broker({handle.id}).restart()"
            raise EmbedKafkaError(
                f"no snapshot: broker {handle.id} has a broken disk: {error}. First mend it: "
                f"`kafka.{heal}`, `kafka.{restart}`"
            ) from error
