"""Fetch sessions (KIP-227): a client names its partitions once, then only what changes.

Owner: `FetchSessionCache._lock` guards the cache and every session in it (leaf: nothing is called
while it is held but the sessions' own methods).
Invariants: a session's epoch goes up by one with each request, from 1, and wraps to 1; a session
knows its partitions by topic id or by name, never both; the cache holds at most its slots.
Not here: reading (`reads`), and the wire form (the fetch handler).

A handler asks `FetchManager.new_context` what kind of fetch it has, reads the partitions that
`context.partitions` lists, and passes the answers through `context.update_and_generate`, which
says what goes on the wire.
"""

import random
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, Protocol

from embedkafka.protocol.errors import ErrorCode
from embedkafka.protocol.wire_types import MAX_INT, ZERO_UUID
from embedkafka.replica.fetch import PartitionData, PartitionFetch
from embedkafka.runtime.clock import Clock
from embedkafka.runtime.ids import NO_OFFSET, TopicPartition
from embedkafka.runtime.locks import LEAF_RANK, ranked_lock

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
EVICTION_MS: Final = 120_000

SessionKey = tuple[uuid.UUID | str, int]
"""A partition by topic id, or by name where the client sends no ids."""

Answer = tuple[PartitionFetch, PartitionData]


class SessionAnswer(NamedTuple):
    """What goes on the wire: an error for all, or the partitions that have news."""

    error: ErrorCode
    session_id: int
    answers: Sequence[Answer]


class FetchContext(Protocol):
    """One fetch request within, or without, a session."""

    @property
    def error(self) -> ErrorCode:
        """Anything but NONE: read nothing, answer with it."""
        ...

    @property
    def partitions(self) -> Sequence[PartitionFetch]:
        """All that this fetch reads; a topic id that nobody knows has an empty topic name."""
        ...

    def update_and_generate(self, answers: Sequence[Answer]) -> SessionAnswer: ...


class FetchManager:
    """Tells full, incremental and sessionless fetches apart and keeps the sessions."""

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
        """A session over these partitions, or NO_SESSION when there is no room for it."""
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
        """Takes the changes of an incremental fetch into its session."""
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
                return _Sessionless([])
            self._touch(session)
            session.epoch = next_epoch(session.epoch)
            return _Incremental(self, session, session.resolved(resolve))

    def select(self, session: "_Session", epoch: int, answers: Sequence[Answer]) -> SessionAnswer:
        """The answers that differ from what the session's client knows already."""
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
        """Followers may push out consumers at any time; others give way after a while only."""
        candidates = [
            session
            for session in self._sessions.values()
            if now_ms - session.created_ms > self._eviction_ms
            or (privileged and not session.privileged)
        ]
        return min(candidates, key=lambda session: session.worth, default=None)


class _CachedPartition:
    """A partition of a session, and what its client last heard of it."""

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
        # After an error the client needs to see the partition again, changed or not.
        self.high_watermark = data.high_watermark if data.error is ErrorCode.NONE else NO_OFFSET
        self.log_start_offset = data.log_start_offset
        return news


class _Session:
    """What one client fetches; guarded by the cache's lock."""

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
        """What to send; partitions with records go to the end, so that all get their turn."""
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
    """A request whose session is not there, or not as the client thinks."""

    partitions: Sequence[PartitionFetch] = ()

    def __init__(self, error: ErrorCode) -> None:
        self.error = error

    def update_and_generate(self, answers: Sequence[Answer]) -> SessionAnswer:
        return SessionAnswer(self.error, NO_SESSION, ())


class _Sessionless:
    """Everything asked, everything answered."""

    error = ErrorCode.NONE

    def __init__(self, partitions: Sequence[PartitionFetch]) -> None:
        self.partitions = partitions

    def update_and_generate(self, answers: Sequence[Answer]) -> SessionAnswer:
        return SessionAnswer(ErrorCode.NONE, NO_SESSION, answers)


class _Full:
    """Everything asked, everything answered, and a session begun if there is room."""

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
    """The session's partitions asked, the news answered."""

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
    """The epoch of the request that follows, in a session that goes on."""
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
