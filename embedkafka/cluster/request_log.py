"""The last requests from clients, for assertions and for the report of a failed test.

Owner: `_seen`, a deque that any thread may append to and copy.
Invariants: a request costs one append on the broker's thread; headers are decoded when a test asks.
Not here: making requests fail (`faults.request_faults`).
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
"""How much of a request is kept; a longer client id is not shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenRequest:
    """A request from a client, as a broker received it."""

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

    def __str__(self) -> str:
        return f"broker {self.broker}  {self.client_id or '-'}  {self.api} v{self.version}"


class RequestLog:
    """The last thousand requests on the brokers' client listeners."""

    def __init__(self) -> None:
        self._seen: deque[tuple[BrokerId, float, bytes]] = deque(maxlen=_REMEMBERED)

    def around(self, broker: BrokerId, handle: Handle) -> Handle:
        """`handle`, with every request to `broker` noted first."""
        note = self._seen.append

        def note_and_handle(request: Request) -> None:
            if not request.is_control_plane:
                note((broker, request.received_ms, bytes(request.frame[:_HEADER_BYTES])))
            handle(request)

        return note_and_handle

    def all(self) -> list[SeenRequest]:
        """The requests, oldest first."""
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
