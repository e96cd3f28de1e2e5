"""Fetch sessions (KIP-227): a client lists its partitions once, then only the changes.

Owner: `FetchSessionCache._lock` guards the cache and every session in it (leaf: only the sessions'
methods are called under it).
Invariants: a session's epoch starts at 1, rises by one with each request and wraps to 1. A session
identifies its partitions by topic id or by name, never both. The cache never exceeds its slots.
Not here: reading (`fetch_service`), and the wire format (the fetch handler).

A handler gets a context from `FetchManager.new_context`, reads the partitions in
`context.partitions`, and passes the answers to `context.update_and_generate`, which selects what to
send.
"""

import random
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol

from embedkafka.broker.replica.fetch import PartitionData, PartitionFetch
from embedkafka.runtime.clock import Clock
from embedkafka.runtime.ids import NO_OFFSET, TopicPartition
from embedkafka.runtime.locks import LEAF_RANK, ranked_lock
from embedkafka.runtime.values import NamedTuple
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.wire_types import MAX_INT, ZERO_UUID

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
EVICTION_MS: Final = 120_000

SessionKey = tuple[uuid.UUID | str, int]
"""A partition by topic id, or by name where the client sends no ids."""

Answer = tuple[PartitionFetch, PartitionData]


class SessionAnswer(NamedTuple):
    """The answer to send: an error for the whole fetch, or the partitions with news."""

    error: ErrorCode
    session_id: int
    answers: Sequence[Answer]


class FetchContext(Protocol):
    """One fetch request, with or without a session."""

    @property
    def error(self) -> ErrorCode:
        """If not NONE, read nothing and answer with this error."""
        ...

    @property
    def partitions(self) -> Sequence[PartitionFetch]:
        """The partitions that this fetch reads; an unknown topic id has an empty topic name."""
        ...

    def update_and_generate(self, answers: Sequence[Answer]) -> SessionAnswer: ...


class FetchManager:
    """Distinguishes full, incremental and sessionless fetches, and keeps the sessions."""

    def __init__(
        self,
        clock: Clock,
        rng: random.Random,
        *,
        slots: int = 1_000,
        eviction_ms: float = EVICTION_MS,
    ) -> None:
        self._cache = FetchSessionCache(clock, rng, slots=slots, eviction_ms=eviction_ms)

    @property
    def session_count(self) -> int:
        return len(self._cache)

    def new_context(
        self,
        *,
        session_id: int,
        epoch: int,
        uses_topic_ids: bool,
        is_follower: bool,
        wanted: Sequence[PartitionFetch],
        forgotten: Iterable[SessionKey],
        resolve: Callable[[uuid.UUID], str | None],
    ) -> FetchContext:
        """`wanted` has an empty topic name where the client sent an id; `resolve` finds it."""
        cache = self._cache
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            cache.remove(session_id)
            resolved = [_resolved(request, resolve) for request in wanted]
            if epoch == FINAL_EPOCH:
                return _Sessionless(resolved)
            return _Full(cache, resolved, uses_topic_ids=uses_topic_ids, privileged=is_follower)
        return cache.update(
            session_id,
            epoch,
            uses_topic_ids=uses_topic_ids,
            wanted=wanted,
            forgotten=forgotten,
            resolve=resolve,
        )


class FetchSessionCache:
    """Sessions by id, the least recently used first."""

    def __init__(self, clock: Clock, rng: random.Random, *, slots: int, eviction_ms: float) -> None:
        self._clock = clock
        self._rng = rng
        self._slots = slots
        self._eviction_ms = eviction_ms
        self._lock = ranked_lock("fetch sessions", LEAF_RANK)
        self._sessions: dict[int, _Session] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def remove(self, session_id: int) -> None:
        with self._lock:
            self._sessions.pop(session_id, None)

    def create(self, answers: Sequence[Answer], *, uses_topic_ids: bool, privileged: bool) -> int:
        """Creates a session with these partitions; NO_SESSION if there is no room."""
        with self._lock:
            if not self._make_room(privileged=privileged, size=len(answers)):
                return NO_SESSION
            session_id = self._new_id()
            self._sessions[session_id] = _Session(
                session_id,
                answers,
                uses_topic_ids=uses_topic_ids,
                privileged=privileged,
                now_ms=self._clock.monotonic_ms(),
            )
            return session_id

    def update(
        self,
        session_id: int,
        epoch: int,
        *,
        uses_topic_ids: bool,
        wanted: Sequence[PartitionFetch],
        forgotten: Iterable[SessionKey],
        resolve: Callable[[uuid.UUID], str | None],
    ) -> "FetchContext":
        """Applies the changes of an incremental fetch to its session."""
        with self._lock:
            session = self._sessions.get(session_id)
            if session is None:
                return _Failed(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
            if session.epoch != epoch:
                return _Failed(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
            if session.uses_topic_ids != uses_topic_ids:
                return _Failed(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
            session.change(wanted, forgotten)
            if not session.partitions:
                del self._sessions[session_id]
                return _Sessionless([_resolved(request, resolve) for request in wanted])
            self._touch(session)
            session.epoch = next_epoch(session.epoch)
            return _Incremental(self, session, session.resolved(resolve))

    def select(self, session: "_Session", epoch: int, answers: Sequence[Answer]) -> SessionAnswer:
        """The answers that differ from the client's last known state."""
        with self._lock:
            if session.epoch != epoch:  # another request of the session has overtaken this one
                return SessionAnswer(ErrorCode.INVALID_FETCH_SESSION_EPOCH, session.session_id, ())
            return SessionAnswer(ErrorCode.NONE, session.session_id, session.news(answers))

    # -- under the lock

    def _touch(self, session: "_Session") -> None:
        session.last_used_ms = self._clock.monotonic_ms()
        self._sessions[session.session_id] = self._sessions.pop(session.session_id)

    def _new_id(self) -> int:
        while (session_id := self._rng.randint(1, MAX_INT)) in self._sessions:
            pass
        return session_id

    def _make_room(self, *, privileged: bool, size: int) -> bool:
        if len(self._sessions) < self._slots:
            return True
        if not self._sessions:
            return False
        now_ms = self._clock.monotonic_ms()
        oldest = next(iter(self._sessions.values()))
        if now_ms - oldest.last_used_ms > self._eviction_ms:
            del self._sessions[oldest.session_id]
            return True
        victim = self._least_valuable(privileged=privileged, now_ms=now_ms)
        if victim is None or (privileged, size, 0) < victim.worth:
            return False
        del self._sessions[victim.session_id]
        return True

    def _least_valuable(self, *, privileged: bool, now_ms: float) -> "_Session | None":
        """A follower may evict a consumer at any time; other sessions must be idle for a while."""
        candidates = [
            session
            for session in self._sessions.values()
            if now_ms - session.created_ms > self._eviction_ms
            or (privileged and not session.privileged)
        ]
        return min(candidates, key=lambda session: session.worth, default=None)


class _CachedPartition:
    """A partition of a session, and the state last sent to its client."""

    __slots__ = ("high_watermark", "log_start_offset", "request")

    def __init__(self, request: PartitionFetch) -> None:
        self.request = request
        self.high_watermark = NO_OFFSET
        self.log_start_offset = NO_OFFSET

    def take_news(self, data: PartitionData) -> bool:
        """Remembers `data`; whether the client must see it."""
        news = (
            data.error is not ErrorCode.NONE
            or data.size > 0
            or data.high_watermark != self.high_watermark
            or data.log_start_offset != self.log_start_offset
            or data.preferred_read_replica >= 0
            or data.diverging_epoch is not None
        )
        # After an error the client must see the partition again, changed or not.
        self.high_watermark = data.high_watermark if data.error is ErrorCode.NONE else NO_OFFSET
        self.log_start_offset = data.log_start_offset
        return news


class _Session:
    """One client's partitions; guarded by the cache's lock."""

    __slots__ = (
        "created_ms",
        "epoch",
        "last_used_ms",
        "partitions",
        "privileged",
        "session_id",
        "uses_topic_ids",
    )

    def __init__(
        self,
        session_id: int,
        answers: Sequence[Answer],
        *,
        uses_topic_ids: bool,
        privileged: bool,
        now_ms: float,
    ) -> None:
        self.session_id = session_id
        self.uses_topic_ids = uses_topic_ids
        self.privileged = privileged
        self.created_ms = self.last_used_ms = now_ms
        self.epoch = next_epoch(INITIAL_EPOCH)
        self.partitions: dict[SessionKey, _CachedPartition] = {}
        for request, data in answers:
            cached = self.partitions[_key(request)] = _CachedPartition(request)
            cached.take_news(data)

    @property
    def worth(self) -> tuple[bool, int, int]:
        return (self.privileged, len(self.partitions), self.session_id)

    def change(self, wanted: Sequence[PartitionFetch], forgotten: Iterable[SessionKey]) -> None:
        for request in wanted:
            cached = self.partitions.get(_key(request))
            if cached is None:
                self.partitions[_key(request)] = _CachedPartition(request)
            else:
                cached.request = request
        for key in forgotten:
            self.partitions.pop(key, None)

    def resolved(self, resolve: Callable[[uuid.UUID], str | None]) -> list[PartitionFetch]:
        requests = []
        for cached in self.partitions.values():
            if not cached.request.topic_partition.topic:
                cached.request = _resolved(cached.request, resolve)
            requests.append(cached.request)
        return requests

    def news(self, answers: Sequence[Answer]) -> list[Answer]:
        """The answers to send; partitions with records move to the end, for fairness."""
        news = []
        for answer in answers:
            request, data = answer
            key = _key(request)
            cached = self.partitions.get(key)
            if cached is None or not cached.take_news(data):
                continue
            news.append(answer)
            if data.size:
                self.partitions[key] = self.partitions.pop(key)
        return news


class _Failed:
    """A request whose session does not exist or has another epoch."""

    partitions: Sequence[PartitionFetch] = ()

    def __init__(self, error: ErrorCode) -> None:
        self.error = error

    def update_and_generate(self, answers: Sequence[Answer]) -> SessionAnswer:
        return SessionAnswer(self.error, NO_SESSION, ())


class _Sessionless:
    """A fetch without a session: all its partitions are answered."""

    error = ErrorCode.NONE

    def __init__(self, partitions: Sequence[PartitionFetch]) -> None:
        self.partitions = partitions

    def update_and_generate(self, answers: Sequence[Answer]) -> SessionAnswer:
        return SessionAnswer(ErrorCode.NONE, NO_SESSION, answers)


class _Full:
    """A full fetch: all its partitions are answered, and a session starts if there is room."""

    error = ErrorCode.NONE

    def __init__(
        self,
        cache: FetchSessionCache,
        partitions: Sequence[PartitionFetch],
        *,
        uses_topic_ids: bool,
        privileged: bool,
    ) -> None:
        self.partitions = partitions
        self._cache = cache
        self._uses_topic_ids = uses_topic_ids
        self._privileged = privileged

    def update_and_generate(self, answers: Sequence[Answer]) -> SessionAnswer:
        session_id = self._cache.create(
            answers, uses_topic_ids=self._uses_topic_ids, privileged=self._privileged
        )
        return SessionAnswer(ErrorCode.NONE, session_id, answers)


class _Incremental:
    """An incremental fetch: only partitions with news are answered."""

    error = ErrorCode.NONE

    def __init__(
        self, cache: FetchSessionCache, session: _Session, partitions: Sequence[PartitionFetch]
    ) -> None:
        self.partitions = partitions
        self._cache = cache
        self._session = session
        self._epoch = session.epoch

    def update_and_generate(self, answers: Sequence[Answer]) -> SessionAnswer:
        return self._cache.select(self._session, self._epoch, answers)


def _key(request: PartitionFetch) -> SessionKey:
    topic, partition = request.topic_partition
    return (topic if request.topic_id == ZERO_UUID else request.topic_id, partition)


def next_epoch(epoch: int) -> int:
    """The epoch of the session's next request."""
    return 1 if epoch == MAX_INT else epoch + 1


def _resolved(
    request: PartitionFetch, resolve: Callable[[uuid.UUID], str | None]
) -> PartitionFetch:
    if request.topic_partition.topic or request.topic_id == ZERO_UUID:
        return request
    topic = resolve(request.topic_id) or ""
    return request._replace(
        topic_partition=TopicPartition(topic, request.topic_partition.partition)
    )
