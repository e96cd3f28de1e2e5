"""When a broker fetches: on news, on a changed assignment, or when a delay ends.

The leader's thread that reports news also fetches it: waking another thread costs more than the
round itself. The loop's thread does the rest, including news that arrives during a round.

Owner: `_condition` (leaf) guards the inbox, the news, the thread and `_running`. The fetchers and
the times belong to the thread that has set `_running`, or to a test that calls `run_once`.
Invariants: there is no thread while nothing is followed, and one round at a time. News that arrives
during a round is not lost. A delayed partition is retried at its time, or earlier if its leader has
news. A follower's bug is recorded; it ends neither the thread nor the leader's request.
Not here: the round itself (`fetcher`).
"""

import threading
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from embedkafka.broker.replica.config import ReplicaConfig
from embedkafka.broker.replica.following.fetcher import Followed, FollowState, ReplicaFetcher, Round
from embedkafka.broker.replica.following.leader_endpoint import LeaderAccess
from embedkafka.broker.replica.quota import ReplicationQuota
from embedkafka.runtime.clock import Clock
from embedkafka.runtime.failures import Failures
from embedkafka.runtime.ids import BrokerId, TopicPartition
from embedkafka.runtime.locks import leaf_condition
from embedkafka.runtime.threads import PATIENCE_S, end_thread, start_thread


class FetcherLoop:
    """Follows partitions from one leader or from many, on one thread."""

    def __init__(
        self,
        name: str,
        leaders: LeaderAccess,
        *,
        config: ReplicaConfig,
        clock: Clock,
        failures: Failures,
        on_progress: Callable[[TopicPartition], None],
        quota: ReplicationQuota,
    ) -> None:
        self.name = name
        self._connect = leaders.connect
        self._config = config
        self._clock = clock
        self._failures = failures
        self._on_progress = on_progress
        self._quota = quota
        self._threaded = leaders.threaded
        self._condition = leaf_condition(name)
        self._inbox: dict[TopicPartition, tuple[BrokerId, Followed] | None] = {}
        self._news: set[TopicPartition] = set()
        self._open = True
        self._running = False
        self._called = False
        self._thread: threading.Thread | None = None
        self._last_thread: threading.Thread | None = None  # it may be about to end
        self._fetchers: dict[BrokerId, ReplicaFetcher] = {}
        self._fetcher_of: dict[TopicPartition, ReplicaFetcher] = {}
        self._due: dict[TopicPartition, None] = {}
        self._put_off: dict[TopicPartition, float] = {}
        self._unsettled: set[TopicPartition] = set()
        self._refresh_at_ms: float | None = None
        self._wakes_at_ms: float | None = None
        self.bytes_in = 0

    # -- from any thread

    def follow(self, assignments: Mapping[TopicPartition, tuple[BrokerId, Followed]]) -> None:
        """Follows these leaders from now on instead of earlier ones."""
        with self._condition:
            if not self._open:
                return
            self._inbox.update(assignments)
            if self._thread is None and self._threaded:
                self._thread = start_thread(self.name, self._run, self._failures)
                self._last_thread = self._thread
            self._call()

    def unfollow(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Forgets these partitions; `Partition` refuses what a running round still fetches."""
        with self._condition:
            self._inbox.update(dict.fromkeys(topic_partitions))
            self._call()

    def on_news(self, topic_partition: TopicPartition) -> None:
        """The leader has news for this partition. The caller holds no lock."""
        with self._condition:
            if self._running or self._called or self._thread is None:
                self._news.add(topic_partition)
                return  # the running or next round sees it
            self._running = True
        try:
            fetcher = self._fetcher_of.get(topic_partition)
            if fetcher is not None:
                self._put_off.pop(topic_partition, None)
                self._run_round(fetcher, [topic_partition])
        finally:
            self._end_running()

    def stop(self) -> None:
        """Stops fetching: aborts a fetch that waits on the wire, and joins the thread."""
        with self._condition:
            self._open = False
            self._call()
            thread = self._last_thread
            fetchers = list(self._fetchers.values())
        for fetcher in fetchers:
            fetcher.endpoint.close()
        if thread is not None:
            end_thread(thread, self._failures)
        with self._condition:  # a leader's thread may run a round; its broker reports that thread
            self._condition.wait_for(lambda: not self._running, PATIENCE_S)
        for fetcher in self._fetchers.values():
            fetcher.endpoint.close()  # the thread may have opened or reopened some since

    def find_state(self, topic_partition: TopicPartition) -> FollowState | None:
        """The state of a followed partition, for reports."""
        fetcher = self._fetcher_of.get(topic_partition)
        return fetcher.find_state(topic_partition) if fetcher else None

    def is_delayed(self, topic_partition: TopicPartition) -> bool:
        """Whether it waits before it fetches the partition again, after an error."""
        return topic_partition in self._put_off

    # -- the thread

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do until news arrives or time passes."""
        if self._inbox or self._news or self._due:
            return False
        deadline_ms = self._deadline_ms()
        return deadline_ms is None or deadline_ms > self._clock.monotonic_ms()

    def run_once(self) -> None:
        """Runs one round for each leader with due partitions."""
        self._take_orders()
        now_ms = self._clock.monotonic_ms()
        if self._put_off:
            self._due_now(tp for tp, at_ms in list(self._put_off.items()) if at_ms <= now_ms)
        if self._refresh_at_ms is not None and self._refresh_at_ms <= now_ms:
            self._refresh_at_ms = None
            self._due_now(self._unsettled)
            self._unsettled = set()
        for fetcher, topic_partitions in self._due_by_fetcher():
            self._run_round(fetcher, topic_partitions)

    def _run(self) -> None:
        while self._await_work():
            try:
                self.run_once()
            except Exception as error:  # the other partitions must still be followed
                self._failures.record(self.name, error)
            finally:
                self._end_running()

    def _await_work(self) -> bool:
        """False when the thread should end: closed, or nothing left to follow."""
        with self._condition:
            while self._open:
                self._called = self._running  # if so, it is the next to run
                if not self._running:
                    if not self.is_idle:
                        self._running = True
                        return True
                    if not self._fetcher_of:
                        self._thread = None
                        return False
                    self._wakes_at_ms = self._deadline_ms()
                self._clock.wait_until(
                    self._condition, None if self._running else self._wakes_at_ms
                )
            return False

    def _end_running(self) -> None:
        with self._condition:
            self._running = False
            has_work = self._called or self._news or self._due
            if has_work or self._deadline_ms() != self._wakes_at_ms:
                self._call()

    def _call(self) -> None:
        """Calls the thread; until it responds, no other thread runs a round."""
        self._called = True
        self._condition.notify_all()

    def _deadline_ms(self) -> float | None:
        if not self._put_off:
            return self._refresh_at_ms
        deadline_ms = min(self._put_off.values())
        refresh_at_ms = self._refresh_at_ms
        return deadline_ms if refresh_at_ms is None else min(deadline_ms, refresh_at_ms)

    def _take_orders(self) -> None:
        with self._condition:
            inbox, self._inbox = self._inbox, {}
            news, self._news = self._news, set()
        for topic_partition, order in inbox.items():
            try:
                self._unfollow(topic_partition)
                if order is not None:
                    self._follow(*order)
            except Exception as error:  # the other assignments must still be applied
                self._failures.record(f"{self.name} told of {topic_partition}", error)
        if inbox:
            self._drop_idle_fetchers()
        self._due_now(news)

    def _follow(self, leader_id: BrokerId, followed: Followed) -> None:
        fetcher = self._fetchers.get(leader_id)
        if fetcher is None:
            fetcher = ReplicaFetcher(
                self._connect(leader_id, self.on_news),
                max_bytes=self._config.replica_fetch_max_bytes,
                on_progress=self._on_progress,
                on_failure=partial(self._record, leader_id),
                truncates_on_fetch=self._config.truncates_on_fetch,
                quota=self._quota,
            )
            with self._condition:
                self._fetchers[leader_id] = fetcher
        fetcher.follow(followed)
        self._fetcher_of[followed.topic_partition] = fetcher
        self._due[followed.topic_partition] = None

    def _unfollow(self, topic_partition: TopicPartition) -> None:
        fetcher = self._fetcher_of.pop(topic_partition, None)
        if fetcher is not None:
            fetcher.unfollow(topic_partition)
        self._put_off.pop(topic_partition, None)

    def _drop_idle_fetchers(self) -> None:
        for leader_id, fetcher in list(self._fetchers.items()):
            if fetcher.is_idle:
                with self._condition:
                    del self._fetchers[leader_id]
                fetcher.endpoint.close()

    def _due_now(self, topic_partitions: Iterable[TopicPartition]) -> None:
        for topic_partition in topic_partitions:
            self._put_off.pop(topic_partition, None)
            self._due[topic_partition] = None

    def _due_by_fetcher(self) -> list[tuple[ReplicaFetcher, list[TopicPartition]]]:
        """Takes the due partitions that are still followed."""
        due, self._due = self._due, {}
        by_fetcher: dict[ReplicaFetcher, list[TopicPartition]] = {}
        for topic_partition in due:
            fetcher = self._fetcher_of.get(topic_partition)
            if fetcher is not None:
                by_fetcher.setdefault(fetcher, []).append(topic_partition)
        return list(by_fetcher.items())

    def _run_round(self, fetcher: ReplicaFetcher, topic_partitions: list[TopicPartition]) -> None:
        try:
            left = fetcher.run_round(topic_partitions)
        except Exception as error:  # this may be the leader's thread, and other leaders are next
            self._failures.record(f"{self.name} fetching {_names(topic_partitions)}", error)
            left = Round(put_off=topic_partitions)
        self.bytes_in += left.size
        self._due.update(dict.fromkeys(left.again + left.moved))
        if left.put_off:
            at_ms = self._clock.monotonic_ms() + self._config.replica_fetch_backoff_ms
            for topic_partition in left.put_off:
                self._put_off[topic_partition] = at_ms
        if left.unsettled:
            self._unsettled.update(left.unsettled)
            if self._refresh_at_ms is None:
                self._refresh_at_ms = (
                    self._clock.monotonic_ms() + self._config.replica_fetch_wait_max_ms
                )

    def _record(
        self, leader_id: BrokerId, topic_partition: TopicPartition, error: Exception
    ) -> None:
        self._failures.record(
            f"{self.name} following {topic_partition} from broker {leader_id}", error
        )


def _names(topic_partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(map(str, topic_partitions))
