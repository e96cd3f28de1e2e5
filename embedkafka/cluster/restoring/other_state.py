"""What a test may change beside topics, groups, settings and brokers; noted, and put back.

Most of it is in the brokers' memory and changes without a request: revoked passwords, counters,
snapshots, pages.

Owner: the thread of the test.
Invariants: state that was there when it was noted stays, also if a test has switched it off.
Not here: when it is put back (`isolation`).
"""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from embedkafka.broker.loggers import find_levels, restore_levels
from embedkafka.cluster.brokers import Brokers, OpenPage
from embedkafka.cluster.restoring.snapshot import Snapshot, Snapshots
from embedkafka.runtime.clock import REAL_TIME
from embedkafka.runtime.failures import EmbedKafkaError
from embedkafka.runtime.ids import BrokerId, TopicPartition
from embedkafka.runtime.locks import leaf_condition
from embedkafka.runtime.values import dataclass
from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.errors import ApiError

if TYPE_CHECKING:
    from embedkafka.broker.broker import Broker
    from embedkafka.security.tokens import DelegationToken, DelegationTokens

_LOG = logging.getLogger(__name__)

_NO_LEVELS: Final = frozenset(ApiKey) - {ApiKey.INCREMENTAL_ALTER_CONFIGS}
"""All requests but the one that changes levels of loggers."""
_PATIENCE_MS: Final = 10_000
_ASK_AGAIN_MS: Final = 2

K = TypeVar("K")
V = TypeVar("V")
Replica = tuple[BrokerId, TopicPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherState:
    """What there is at one moment."""

    revoked: Mapping[BrokerId, frozenset[str]]
    """Users whose passwords of PLAIN do not count, by broker."""
    tokens: "Mapping[str, DelegationToken]"
    zk_groups: frozenset[str]
    """Groups with offsets in ZooKeeper."""
    levels: Mapping[str, int]
    """Of loggers."""
    has_metrics: bool
    snapshots: Mapping[str, Snapshot]
    """By their names."""
    pages: tuple[OpenPage, ...]
    controller: int | None
    log_dirs: Mapping[Replica, Path]
    """Of brokers that have several."""

    def with_news(self, earlier: "OtherState", now: "OtherState") -> "OtherState":
        """This state, with all that has changed from `earlier` to `now`."""
        return OtherState(
            revoked=_with_news(self.revoked, earlier.revoked, now.revoked),
            tokens=_with_news(self.tokens, earlier.tokens, now.tokens),
            zk_groups=self.zk_groups | (now.zk_groups - earlier.zk_groups),
            levels=_with_news(self.levels, earlier.levels, now.levels),
            has_metrics=self.has_metrics or (now.has_metrics and not earlier.has_metrics),
            snapshots=_with_news(self.snapshots, earlier.snapshots, now.snapshots),
            pages=(*self.pages, *(page for page in now.pages if page not in earlier.pages)),
            controller=self.controller if now.controller == earlier.controller else now.controller,
            log_dirs={**now.log_dirs, **_with_news(self.log_dirs, earlier.log_dirs, now.log_dirs)},
        )


def find_other_state(brokers: Brokers, snapshots: Snapshots) -> OtherState:
    tokens = _tokens(brokers)
    return OtherState(
        revoked=brokers.find_revoked(),
        tokens={} if tokens is None else {each.token_id: each for each in tokens.all()},
        zk_groups=brokers.zk.groups_with_offsets(),
        levels=find_levels(),
        has_metrics=brokers.has_meters,
        snapshots=snapshots.named,
        pages=tuple(brokers.pages),
        controller=brokers.state.find_controller(),
        log_dirs={
            (broker.id, log.topic_partition): log.directory.parent
            for broker in brokers.live()
            if len(broker.logs.directories) > 1
            for log in broker.logs.all_logs()
        },
    )


def restore_other_state(brokers: Brokers, snapshots: Snapshots, before: OtherState) -> None:
    """Puts back all but logins and the controller. The clock is right again."""
    _restore_tokens(brokers, before)
    brokers.zk.delete_consumer_offsets(kept=before.zk_groups)
    if not brokers.request_log.has_only(_NO_LEVELS):
        restore_levels(before.levels)
    if not before.has_metrics:
        brokers.drop_meters()
    snapshots.named = before.snapshots
    brokers.close_pages(kept=before.pages)
    forget_refusals(brokers)
    _restore_log_dirs(brokers, before)


def restore_controller(brokers: Brokers, before: OtherState) -> None:
    """Makes the same broker the controller, if it can be."""
    wanted = before.controller
    if wanted is None or brokers.state.find_controller() == wanted:
        return
    if wanted not in {handle.id for handle in brokers.running() if handle.is_reachable}:
        return
    from embedkafka.cluster.on_demand import elect_controller  # most tests need none

    elect_controller(brokers, wanted, _PATIENCE_MS / 1000)


def forget_refusals(brokers: Brokers) -> None:
    """Drops what ACLs have refused so far: it belongs to an earlier test."""
    for broker in brokers.live():
        if broker.authorizer is not None:
            broker.authorizer.forget_refusals()


def _restore_tokens(brokers: Brokers, before: OtherState) -> None:
    tokens = _tokens(brokers)
    if tokens is None:
        return
    now = {each.token_id: each for each in tokens.all()}
    for token_id in now.keys() - before.tokens.keys():
        tokens.remove(token_id)
    for token_id, token in before.tokens.items():
        if now.get(token_id) != token:
            tokens.restore(token)


def _restore_log_dirs(brokers: Brokers, before: OtherState) -> None:
    """Moves replicas back into their directories; those of later topics go where Kafka likes."""
    by_id = {broker.id: broker for broker in brokers.live()}
    for broker in by_id.values():
        broker.logs.preferred.clear()
    moved = {
        (broker_id, partition): directory
        for (broker_id, partition), directory in before.log_dirs.items()
        if broker_id in by_id
        if _is_elsewhere(by_id[broker_id], partition, directory)
    }
    try:
        for (broker_id, partition), directory in moved.items():
            by_id[broker_id].logs.move(partition, directory)
        _await_moves(by_id, moved)
    except (ApiError, EmbedKafkaError) as error:
        _LOG.warning("replicas of the last test are not back in their directories: %s", error)


def _is_elsewhere(broker: "Broker", partition: TopicPartition, directory: Path) -> bool:
    """Whether a replica is in another directory, or about to be."""
    log = broker.logs.find(partition)
    is_moving = any(future.topic_partition == partition for future in broker.logs.moving())
    return log is not None and (is_moving or log.directory.parent != directory)


def _await_moves(by_id: "Mapping[BrokerId, Broker]", moved: Mapping[Replica, Path]) -> None:
    """Moves are a matter of milliseconds, and announce nothing."""
    deadline_ms = REAL_TIME.monotonic_ms() + _PATIENCE_MS
    pause = leaf_condition("moves between log directories")
    while left := [
        f"{partition} on broker {broker_id}"
        for (broker_id, partition), directory in moved.items()
        if _is_elsewhere(by_id[broker_id], partition, directory)
    ]:
        now_ms = REAL_TIME.monotonic_ms()
        if now_ms > deadline_ms:
            raise EmbedKafkaError(f"{', '.join(left)} still moves")
        with pause:
            REAL_TIME.wait_until(pause, now_ms + _ASK_AGAIN_MS)


def _with_news(mine: Mapping[K, V], earlier: Mapping[K, V], now: Mapping[K, V]) -> dict[K, V]:
    news = {key: value for key, value in now.items() if earlier.get(key) != value}
    return {**mine, **news}


def _tokens(brokers: Brokers) -> "DelegationTokens | None":
    running = brokers.live()
    return running[0].tokens if running else None
