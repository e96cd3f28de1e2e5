"""A proxy between clients and a broker that records the clients' frames."""

import select
import socket
import struct
import threading
from types import TracebackType
from typing import Self


class Tap:
    """Clients connect to `port`; `frames` has the frames they have sent, without the lengths."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.frames: list[bytes] = []
        self._target: tuple[str, int] | None = None
        self._wake_up, self._woken = socket.socketpair()
        self._thread = threading.Thread(target=self._run, name="fuzz-tap", daemon=True)

    def start(self, host: str, port: int) -> None:
        """Starts to forward to that broker."""
        self._target = (host, port)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._wake_up.close()
        if self._target is not None:
            self._thread.join(10)
        self._listener.close()
        self._woken.close()

    def _run(self) -> None:
        assert self._target is not None
        partners: dict[socket.socket, socket.socket] = {}
        heard: dict[socket.socket, bytearray] = {}
        while True:
            readable, _, _ = select.select([self._listener, self._woken, *partners], [], [])
            if self._woken in readable:
                break
            for ready in readable:
                if ready is self._listener:
                    client, _ = self._listener.accept()
                    broker = socket.create_connection(self._target)
                    partners.update({client: broker, broker: client})
                    heard[client] = bytearray()
                elif ready in partners:
                    data = _received(ready)
                    if data:
                        partners[ready].sendall(data)
                        if ready in heard:
                            self._cut(heard[ready], data)
                    else:
                        for end in (partners.pop(ready), ready):
                            partners.pop(end, None)
                            heard.pop(end, None)
                            end.close()
        for end in partners:
            end.close()

    def _cut(self, buffer: bytearray, data: bytes) -> None:
        buffer += data
        while len(buffer) >= 4:
            (size,) = struct.unpack_from(">i", buffer)
            if len(buffer) < 4 + size:
                return
            self.frames.append(bytes(buffer[4 : 4 + size]))
            del buffer[: 4 + size]


def _received(end: socket.socket) -> bytes:
    try:
        return end.recv(1 << 16)
    except OSError:
        return b""
