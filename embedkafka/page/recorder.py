"""Follows a cluster while a page is wanted: what happened when, throughput, and lag over time.

Owner: its thread owns the last observation; `_lock` (leaf) guards what was recorded.
Invariants: a cluster that is not recorded pays nothing. Controllers tell what they do. All else is
looked at after each change, and a few times per second; what begins and ends between two looks is
not seen. At most `_KEPT` events and samples are kept, the newest.
Not here: tests and Spark's batches, which their owner adds with `span`.
"""

import threading
from collections import deque
from typing import TYPE_CHECKING, Final

from embedkafka.cluster.brokers import Brokers
from embedkafka.cluster.reports import request_lines
from embedkafka.cluster.reports.description import views_by_partition
from embedkafka.cluster.reports.report import KEPT_RECORDS, ask
from embedkafka.cluster.reports.troubles import find_troubles
from embedkafka.cluster.request_log import Mark
from embedkafka.page.controller_work import ControllerWork
from embedkafka.page.state import Json, embedded_state, records_of, topics_of
from embedkafka.runtime.clock import REAL_TIME
from embedkafka.runtime.failures import EmbedKafkaError, Failures
from embedkafka.runtime.locks import LEAF_RANK, ranked_lock
from embedkafka.runtime.real_time import wall_s
from embedkafka.runtime.threads import end_thread, start_thread
from embedkafka.runtime.values import dataclass, replace
from embedkafka.zk.store import ZkError

if TYPE_CHECKING:
    from embedkafka.cluster.embedded import EmbeddedKafka

_KEPT: Final = 5_000
_LOOK_S: Final = 0.25
_LEAST_GAP_S: Final = 0.02
_ASK_EVERY: Final = 4  # looks, or seconds
_TOPICS: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """One look at the cluster, to compare with the next."""

    brokers: dict[int, str]
    controller: int | None
    isr: dict[str, tuple[int, ...]]
    ends: dict[str, int]
    groups: dict[str, str]
    transactions: frozenset[str]
    faults: frozenset[str]


class Recorder:
    """Records one embedded cluster from `start` to `stop`."""

    def __init__(self, kafka: "EmbeddedKafka", label: str) -> None:
        self.label = label
        self._brokers: Brokers = kafka._require_brokers()
        self._failures = Failures()
        self._lock = ranked_lock("recorder of a page", LEAF_RANK)
        self._events: deque[Json] = deque(maxlen=_KEPT)
        self._spans: deque[Json] = deque(maxlen=_KEPT)
        self._open: dict[str, Json] = {}
        self._controllers = ControllerWork(self._brokers)
        self._throughput: deque[tuple[float, float]] = deque(maxlen=_KEPT)
        self._lag: dict[str, deque[tuple[float, int]]] = {}
        self._kept_topics: dict[str, Json] = {}
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None
        self._started_ms = now_ms()
        self._final: Json | None = None
        self._asked: tuple[dict[str, str], frozenset[str]] = ({}, frozenset())

    def start(self) -> None:
        self._controllers.start()
        self._thread = start_thread("ek-page", self._follow, self._failures)

    def stop(self) -> None:
        """Looks once more, and ends; the cluster still runs."""
        self._controllers.stop()
        self._ending.set()
        if self._thread is not None:
            self._brokers.on_change()  # wakes it
            end_thread(self._thread, self._failures)
        try:
            self._final = embedded_state(self._brokers)
        except (EmbedKafkaError, OSError) as error:
            self._final = {"troubles": [{"kind": "cannot be described", "what": str(error)}]}
        with self._lock:
            for span in self._open.values():
                self._spans.append({**span, "to": now_ms()})
            self._open.clear()

    def span(self, lane: str, text: str, start_ms: float, end_ms: float, **more: str) -> None:
        """Adds something with a beginning and an end, such as a test."""
        with self._lock:
            self._spans.append({"lane": lane, "text": text, "from": start_ms, "to": end_ms, **more})

    def troubles(self) -> list[str]:
        """What is wrong now."""
        return [
            str(each) for each in find_troubles(self._brokers, self._brokers.state.partitions())
        ]

    def keep_topics(self, owner: str, since: Mark | None, listener: str | None = None) -> None:
        """Keeps a test's topics with their last records, because they may be deleted next.

        They are those that requests, perhaps of one listener, have named since the mark, or all
        without one.
        """
        log = self._brokers.requests_at(listener)
        seen = None if since is None else log.since(since.number)
        names = None if seen is None else request_lines.topics_of(seen)
        statuses, views = self._brokers.state.partitions(), views_by_partition(self._brokers.live())
        is_led = self._brokers.state.is_led
        for topic in topics_of(statuses, views, is_led=is_led, names=names):
            if topic["internal"] or len(self._kept_topics) >= _TOPICS:
                continue
            topic["owner"] = owner
            topic["records"] = records_of(self._brokers, topic["name"], KEPT_RECORDS)
            self._kept_topics[f"{owner} {topic['name']}"] = topic

    def timeline(self) -> Json:
        """What was recorded so far."""
        controllers = self._controllers
        work, elections, changes = (
            controllers.spans(),
            controllers.elections(),
            controllers.changes(),
        )
        with self._lock:
            return {
                "started": self._started_ms,
                "ended": now_ms(),
                "events": sorted([*self._events, *elections], key=lambda each: each["at"]),
                "changes": changes,
                "spans": [
                    *self._spans,
                    *({**s, "to": now_ms()} for s in self._open.values()),
                    *work,
                ],
                "throughput": list(self._throughput),
                "lag": {group: list(points) for group, points in self._lag.items()},
            }

    def document(self) -> Json:
        """All of it, for a page that outlives the cluster."""
        state = dict(self._final or {})
        kept = [*self._kept_topics.values()]
        names = {topic["name"] for topic in kept}
        rest = [topic for topic in state.get("topics", []) if topic["name"] not in names]
        state["topics"] = [*kept, *rest]
        return {"label": self.label, "timeline": self.timeline(), "state": state}

    # -- on its thread

    def _follow(self) -> None:
        last: _Seen | None = None
        looks = 0
        while not self._ending.is_set():
            changes = self._brokers.waiting.changes
            try:
                seen = self._look(asks=looks % _ASK_EVERY == 0)
            except (EmbedKafkaError, ZkError, OSError):
                return  # the cluster is closing
            if last is not None:
                seen = _without_gaps(last, seen)
            self._compare(last, seen)
            last, looks = seen, looks + 1
            self._ending.wait(_LEAST_GAP_S)
            self._brokers.waiting.await_change(changes, REAL_TIME.monotonic_ms() + _LOOK_S * 1000)

    def _look(self, *, asks: bool) -> _Seen:
        brokers = self._brokers
        statuses, views = brokers.state.partitions(), views_by_partition(brokers.live())
        if asks:
            asked = ask(brokers, statuses, views)
            groups = {group.group_id: group.state for group in asked.groups}
            open_ids = frozenset(each.transactional_id for each in asked.transactions)
            self._asked = (groups, open_ids)
            with self._lock:
                for group in asked.groups:
                    points = self._lag.setdefault(group.group_id, deque(maxlen=_KEPT))
                    points.append((now_ms(), group.total_lag))
        named = {f"{each.topic}-{each.partition}": each for each in statuses}
        return _Seen(
            brokers={handle.id: handle.state.value for handle in brokers.all()},
            controller=brokers.state.find_controller(),
            isr={name: each.isr for name, each in named.items()},
            ends={
                str(partition): view.log_end_offset
                for partition, (view, led) in views.items()
                if led and not partition.topic.startswith("__")
            },
            groups=self._asked[0],
            transactions=self._asked[1],
            faults=frozenset(_without_counts(each) for each in brokers.faults.active),
        )

    def _compare(self, last: _Seen | None, seen: _Seen) -> None:
        at = now_ms()
        with self._lock:
            for broker, state in seen.brokers.items():
                self._hold(f"broker {broker}", state, at)
            self._hold_all("transaction", seen.transactions, at)
            self._hold_all("fault", seen.faults, at)
            if last is None:
                self._throughput.append((at, 0.0))
                return
            self._note_throughput(last, seen, at)
            if seen.controller not in (None, last.controller):
                self._event("election", f"broker {seen.controller} is the controller", at)
            for name, isr in seen.isr.items():
                if name in last.isr and set(isr) != set(last.isr[name]):
                    now = ", ".join(map(str, isr)) or "none"
                    self._event("isr", f"{name} in sync: {now}", at)
            for group, state in seen.groups.items():
                if last.groups.get(group) != state:
                    self._event("rebalance", f"{group} is {state}", at)

    def _note_throughput(self, last: _Seen, seen: _Seen, at: float) -> None:
        before = self._throughput[-1][0]
        new = sum(max(0, end - last.ends.get(name, 0)) for name, end in seen.ends.items())
        self._throughput.append((at, round(new / max(at - before, 1) * 1000, 1)))

    def _event(self, lane: str, text: str, at: float) -> None:
        if not text.startswith("__"):
            self._events.append({"lane": lane, "text": text, "at": at})

    def _hold(self, lane: str, text: str, at: float) -> None:
        """Goes on with a span, or ends it and begins another."""
        known = self._open.get(lane)
        if known is not None and known["text"] == text:
            return
        if known is not None:
            self._spans.append({**known, "to": at})
        self._open[lane] = {"lane": lane, "text": text, "from": at, "status": text}

    def _hold_all(self, lane: str, texts: frozenset[str], at: float) -> None:
        prefix = f"{lane}\0"
        for key in [key for key in self._open if key.startswith(prefix)]:
            if key.removeprefix(prefix) not in texts:
                self._spans.append({**self._open.pop(key), "to": at})
        for text in texts:
            known = {"lane": lane, "text": text, "from": at, "status": lane}
            self._open.setdefault(prefix + text, known)


def _without_gaps(last: _Seen, seen: _Seen) -> _Seen:
    """Keeps the last known ends of partitions that no broker leads now: they are not gone."""
    kept = {name: end for name, end in last.ends.items() if name in seen.isr}
    return replace(seen, ends=kept | seen.ends)


def now_ms() -> float:
    """Real time: what a person's watch shows, whatever the cluster's clock does."""
    return wall_s() * 1000


def _without_counts(fault: str) -> str:
    """A fault by what it is; how often it has hit changes all the time."""
    return fault.rpartition(" (")[0] or fault
