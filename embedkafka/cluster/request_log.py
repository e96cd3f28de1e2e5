"""The requests that clients sent lately, for assertions and for the report of a failed test.

Owner: `_seen`, a deque that any thread may append to and copy.
Invariants: brokers wait for nobody here: a request costs one append, and is read when asked for.
Not here: making requests fail (`faults.requests`).
"""

from collections import deque
from typing import Final

from embedkafka.net.request_channel import Request
from embedkafka.protocol.api_keys import ApiKey
from embedkafka.protocol.errors import ProtocolError
from embedkafka.protocol.headers import UnsupportedApi, decode_request_header
from embedkafka.runtime.ids import BrokerId
from embedkafka.runtime.values import dataclass
from embedkafka.server.broker import Handle

_REMEMBERED: Final = 1_000
_HEADER_BYTES: Final = 200
"""How much is kept of a request; a client id that is longer than that is not shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenRequest:
    """A request as a broker got it; `api` is Kafka's name of it, such as FETCH."""

    broker: int
    api: str
    version: int
    client_id: str | None
    received_ms: float

    def __str__(self) -> str:
        return f"broker {self.broker}  {self.client_id or '-'}  {self.api} v{self.version}"


class RequestLog:
    """The last thousand requests on the brokers' client listeners."""

    def __init__(self) -> None:
        self._seen: deque[tuple[BrokerId, float, bytes]] = deque(maxlen=_REMEMBERED)

    def around(self, broker: BrokerId, handle: Handle) -> Handle:
        """`handle`, as `broker` should call it."""
        note = self._seen.append

        def note_and_handle(request: Request) -> None:
            if not request.is_control_plane:
                note((broker, request.received_ms, bytes(request.frame[:_HEADER_BYTES])))
            handle(request)

        return note_and_handle

    def all(self) -> list[SeenRequest]:
        """Those remembered, oldest first."""
        return [_read(*seen) for seen in self._seen.copy()]


def _read(broker: BrokerId, received_ms: float, start: bytes) -> SeenRequest:
    client_id = None
    try:
        header, _ = decode_request_header(start)
        api_key, version, client_id = header.api_key, header.api_version, header.client_id
    except UnsupportedApi as error:
        api_key, version = error.api_key, error.api_version
    except ProtocolError:
        api_key = version = -1
    known = api_key in ApiKey.__members__.values()
    return SeenRequest(
        broker=broker,
        api=ApiKey(api_key).name if known else f"api key {api_key}",
        version=version,
        client_id=client_id,
        received_ms=received_ms,
    )
