"""The last requests from clients and their answers, for assertions and for reports.

Owner: `_seen`, a deque that any thread may append to and copy; the leaf lock `_counting` owns
`_bytes`.
Invariants: a request costs a few appends on the broker's thread; nothing is decoded until a test
asks. At most `_REMEMBERED` requests and `_MAX_BYTES` of large ones are kept; brokers with several
listeners keep as many for each, so that the clients of one do not displace those of another. Asking
for more than is left raises, because a request that is missing looks like one that never came.
Not here: making requests fail (`faults.request_faults`).
"""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import Any, Final, TypeAlias
from uuid import UUID

from embedkafka.broker.assembly import Handle
from embedkafka.faults.named_entities import (
    FindTopic,
    NamedEntities,
    contents_of,
    errors_in,
    placed_errors,
)
from embedkafka.runtime.arguments import require_known
from embedkafka.runtime.failures import EmbedKafkaError
from embedkafka.runtime.ids import BrokerId
from embedkafka.runtime.locks import LEAF_RANK, ranked_lock
from embedkafka.runtime.values import NamedTuple
from embedkafka.wire.net.request_channel import Outline, Request
from embedkafka.wire.protocol import codec
from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.errors import ProtocolError
from embedkafka.wire.protocol.headers import (
    RequestHeader,
    UnsupportedApi,
    decode_request_header,
    decode_response_header,
)
from embedkafka.wire.protocol.messages.registry import request_type, response_type

_REMEMBERED: Final = 10_000
_MAX_BYTES: Final = 16 * 1024 * 1024
_API_KEY_BYTES: Final = 2
_SMALL_BYTES: Final = 1024
"""Frames up to this are kept whatever the others hold."""
_HEADER_BYTES: Final = 200
"""How much is left of a request whose body is dropped; a longer client id is not shown."""
OWN_CLIENTS: Final = frozenset({"embedkafka-admin", "embedkafka-await", "embedkafka-report"})
"""Client ids of embedkafka's own requests, which are not what a test is about."""


_OF_BROKERS: Final = "ek-b"
_LOOK: Final = ApiKey.METADATA.name
_Seen: TypeAlias = tuple[int, BrokerId, float, list[Any], FindTopic]  # Any: as in `_Entry`


class Mark(NamedTuple):
    """A moment in the list of requests: `kafka.mark()`."""

    number: int


class _Entry(NamedTuple):
    """What is kept of one request. The broker's thread makes a plain tuple, which is quicker."""

    number: int
    broker: BrokerId
    received_ms: float
    kept: list[Any]  # Any: the frame, and once it was answered, the answer's outline
    find_topic: FindTopic

    @property
    def frame(self) -> memoryview | bytes:
        frame: memoryview | bytes = self.kept[0]
        return frame

    @property
    def is_whole(self) -> bool:
        return isinstance(self.frame, memoryview)

    @property
    def answers(self) -> list[Outline]:
        return self.kept[1:]

    def drop_body(self) -> None:
        self.kept[0] = bytes(self.frame[:_HEADER_BYTES])


class SeenRequest:
    """A request from a client, as a broker received it."""

    __slots__ = ("_entry", "_header", "api", "broker", "client_id", "received_ms", "version")

    broker: int
    """The id of the broker."""
    api: str
    """Kafka's name of the API, such as "FETCH"."""
    version: int
    """The API version that the client used; -1 if the header is unreadable."""
    client_id: str | None
    """The client's id, if it sent one."""
    received_ms: float
    """When it arrived, in milliseconds of the cluster's monotonic clock."""

    def __init__(self, entry: _Entry) -> None:
        self._entry = entry
        self._header = header = _read_header(entry.frame)
        self.broker = entry.broker
        self.version = header.api_version
        self.client_id = header.client_id
        self.received_ms = entry.received_ms
        known = header.api_key in ApiKey.__members__.values()
        self.api = ApiKey(header.api_key).name if known else f"api key {header.api_key}"

    def __str__(self) -> str:
        return f"broker {self.broker}  {self.client_id or '-'}  {self.api} v{self.version}"

    def __repr__(self) -> str:
        return f"<SeenRequest {self}>"

    @property
    def request(self) -> Any:  # Any: of any message class, and tests read its fields
        """The decoded request; its fields are Kafka's, such as `max_wait_ms`.

        Raises:
            EmbedKafkaError: its body is not kept any more, or cannot be read.
        """
        if not self._entry.is_whole:
            raise EmbedKafkaError(
                f"the body of {self} is not kept any more: {_MAX_BYTES >> 20} MiB of newer "
                "requests are"
            )
        try:
            _, body = decode_request_header(self._entry.frame)
            cls = request_type(ApiKey(self._header.api_key))
            return codec.decode(cls, self.version, body, surplus_allowed=True)
        except (ProtocolError, ValueError) as error:
            raise EmbedKafkaError(f"the body of {self} cannot be read: {error}") from error

    @property
    def answer(self) -> Any:  # Any: of any message class, and tests read its fields
        """The decoded answer; None if there was none, or none yet. Records are left out.

        Raises:
            EmbedKafkaError: it was too large to be kept.
        """
        answers = self._entry.answers
        if not answers:
            return None
        (outline,) = answers
        if outline is None:
            raise EmbedKafkaError(f"the answer to {self} was too large to be kept")
        joined = b"".join([bytes(part) for part in outline])  # a number becomes that many zeros
        api = ApiKey(self._header.api_key)
        try:
            _, body = decode_response_header(api, self.version, joined)
            return codec.decode(response_type(api), self.version, body)
        except ProtocolError as error:
            raise EmbedKafkaError(f"the answer to {self} cannot be read: {error}") from error

    @property
    def errors(self) -> list[str]:
        """The names of the errors in the answer, such as "NOT_ENOUGH_REPLICAS", each once."""
        answer = self.answer
        return [] if answer is None else sorted(errors_in(answer))

    @property
    def placed_errors(self) -> list[tuple[str, str]]:
        """The errors in the answer, each with the topic or partition it is about, or ""."""
        answer = self.answer
        return [] if answer is None else sorted(placed_errors(answer, self._entry.find_topic))

    @property
    def topics(self) -> frozenset[str]:
        """The topics that the request names."""
        return self._contents.topics

    @property
    def groups(self) -> frozenset[str]:
        """The consumer groups that the request names."""
        return self._contents.groups

    @property
    def is_own(self) -> bool:
        """Whether embedkafka itself sent it, to look at the cluster, or a broker to another.

        A topic handle's clients read and write for the test, but look for leaders on their own.
        """
        client = self.client_id
        if client is None:
            return False
        looks = client in OWN_CLIENTS or (self.api == _LOOK and is_own_client(client))
        return looks or client.startswith(_OF_BROKERS)

    @property
    def _contents(self) -> NamedEntities:
        return contents_of(self.request, self._entry.find_topic)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles it as it is now: the answer may be missing, and its topics have their names."""
        entry, names = self._entry, self._topic_names()
        answers = [_portable(outline) for outline in entry.answers]
        kept = (bytes(entry.frame), entry.is_whole, answers)
        return _unpickle, (entry.number, entry.broker, entry.received_ms, kept, names)

    def _topic_names(self) -> dict[UUID, str]:
        """The names of the topics whose ids the request and its answer hold."""
        names: dict[UUID, str] = {}

        def find_and_note(topic_id: UUID) -> str | None:
            name = self._entry.find_topic(topic_id)
            if name is not None:
                names[topic_id] = name
            return name

        with suppress(EmbedKafkaError):  # it is not kept any more
            contents_of(self.request, find_and_note)
        with suppress(EmbedKafkaError):
            if (answer := self.answer) is not None:
                placed_errors(answer, find_and_note)
        return names


class RequestLog:
    """The last requests on the brokers' client listeners, or on one of them."""

    def __init__(self, numbers: "count[int] | None" = None) -> None:
        """`numbers` are those of the log that this one is a part of."""
        self._seen: deque[_Seen] = deque(maxlen=_REMEMBERED)
        self._numbers = count(1) if numbers is None else numbers
        self._parts: dict[str, RequestLog] = {}
        """By listener, if there is more than one."""
        self._listeners: Sequence[str] = ()
        self._first = 0
        self._counting = ranked_lock("RequestLog._counting", LEAF_RANK)
        self._bytes = 0
        """Of frames that are not small, those that have made room for newer ones included."""

    def around(
        self, broker: BrokerId, handle: Handle, find_topic: FindTopic, listeners: Sequence[str]
    ) -> Handle:
        """`handle`, with every request to `broker` noted first; it has these listeners."""
        self._listeners = listeners
        note_here = self._noting(broker, handle, find_topic)
        if len(listeners) == 1:
            return note_here
        noting = {
            name: self._parts.setdefault(name, RequestLog(self._numbers))._noting(
                broker, handle, find_topic
            )
            for name in listeners
        }

        def note_by_listener(request: Request) -> None:
            noting.get(request.listener, note_here)(request)

        return note_by_listener

    def part(self, listener: str) -> "RequestLog":
        """The log of one listener; raises `InvalidArgument` if there is no such listener."""
        return self._parts.get(require_known("listener", listener, self._listeners), self)

    def _noting(self, broker: BrokerId, handle: Handle, find_topic: FindTopic) -> Handle:
        note, numbers, counting = self._seen.append, self._numbers, self._counting

        def note_and_handle(request: Request) -> None:
            if not request.is_control_plane:
                frame = request.frame
                request.kept = kept = [frame]
                note((next(numbers), broker, request.received_ms, kept, find_topic))
                if len(frame) > _SMALL_BYTES:
                    with counting:
                        self._bytes += len(frame)
                        if self._bytes > _MAX_BYTES:
                            self._drop_bodies()
            handle(request)

        return note_and_handle

    def mark(self) -> Mark:
        """The present moment, for `find`."""
        return Mark(next(self._numbers))

    def find(
        self, is_wanted: Callable[[SeenRequest], bool], since: Mark | None
    ) -> list[SeenRequest]:
        """The requests that `is_wanted`, oldest first.

        Raises `EmbedKafkaError` if requests that came after `since` are not kept any more.
        """
        kept = self._entries()
        if since is not None:
            if since.number < self._first:
                raise EmbedKafkaError(
                    "the mark is older than this test, and earlier requests are not kept: set it "
                    "in the test, or give the test `@pytest.mark.kafka(keep=True)`"
                )
            if any(log._may_have_lost(since) for log in self._logs()):
                raise EmbedKafkaError(
                    f"only the last {_REMEMBERED} requests are kept, and more have come since the "
                    "mark: set it later"
                )
            kept = [entry for entry in kept if entry.number > since.number]
        return [seen for seen in map(SeenRequest, kept) if is_wanted(seen)]

    def since(self, number: int) -> list[SeenRequest]:
        """The requests after this number that are still kept, oldest first."""
        return [SeenRequest(entry) for entry in self._entries() if entry.number > number]

    def has_only(self, apis: Collection[int]) -> bool:
        """Whether all requests since `forget` are of these APIs; false if that is not known."""
        seen = self._copy()
        return (
            len(seen) < _REMEMBERED
            and all(int.from_bytes(kept[0][:_API_KEY_BYTES]) in apis for _, _, _, kept, _ in seen)
            and all(part.has_only(apis) for part in self._parts.values())
        )

    def forget(self) -> None:
        """Drops all requests so far: they belong to an earlier test."""
        for log in self._logs():
            log._first = next(self._numbers)
            with log._counting:
                log._seen.clear()
                log._bytes = 0

    def _logs(self) -> "Iterator[RequestLog]":
        yield self
        yield from self._parts.values()

    def _entries(self) -> list[_Entry]:
        seen = [each for log in self._logs() for each in log._copy()]
        if self._parts:
            seen.sort(key=lambda each: each[0])
        return [_Entry(*each) for each in seen]

    def _copy(self) -> deque[_Seen]:
        """What `_seen` holds now.

        Without the GIL, Python before 3.14.4 raises if another thread appends at the same time.
        """
        while True:
            with suppress(RuntimeError):
                return self._seen.copy()

    def _may_have_lost(self, since: Mark) -> bool:
        """Whether requests that came after the mark may have had to go."""
        seen = self._copy()
        return len(seen) == _REMEMBERED and seen[0][0] > since.number + 1

    def _drop_bodies(self) -> None:
        """Drops the oldest bodies, until half of what is allowed is left."""
        entries = [_Entry(*seen) for seen in self._copy()]
        large = [entry for entry in entries if len(entry.frame) > _SMALL_BYTES]
        self._bytes = 0
        for entry in reversed(large):
            if self._bytes + len(entry.frame) <= _MAX_BYTES // 2:
                self._bytes += len(entry.frame)
            else:
                entry.drop_body()


def is_own_client(client_id: str) -> bool:
    """Whether a client with this id is ours: a topic handle's, one that looks, or a broker's."""
    return client_id.startswith(("embedkafka-", _OF_BROKERS))


def _portable(outline: Outline) -> Outline:
    """Without views of buffers, which cannot be pickled."""
    if outline is None:
        return None
    return [part if isinstance(part, int) else bytes(part) for part in outline]


def _unpickle(
    number: int,
    broker: BrokerId,
    received_ms: float,
    kept: tuple[bytes, bool, list[Outline]],
    names: Mapping[UUID, str],
) -> SeenRequest:
    frame, is_whole, answers = kept
    found = [memoryview(frame) if is_whole else frame, *answers]
    return SeenRequest(_Entry(number, broker, received_ms, found, names.get))


def _read_header(frame: memoryview | bytes) -> RequestHeader:
    try:
        return decode_request_header(frame)[0]
    except UnsupportedApi as error:
        return RequestHeader(error.api_key, error.api_version, error.correlation_id, None)
    except ProtocolError:
        return RequestHeader(-1, -1, -1, None)
