"""Servers on real loopback sockets, checked for leftovers after every test."""

import gc
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final, Self

import pytest

from embedkafka.runtime.clock import Clock, ManualClock
from embedkafka.runtime.failures import Failures
from embedkafka.wire.net.channel_authenticator import NewAuthenticator
from embedkafka.wire.net.limits import Limits
from embedkafka.wire.net.request_channel import Request, RequestChannel
from embedkafka.wire.net.socket_server import ListenerConfig, ServerConfig, SocketServer
from tests.doubles.own_threads import OwnThreads

WAIT_S: Final = 10
DATA: Final = "PLAINTEXT"
CONTROL: Final = "CONTROLLER"


class Peer:
    """A client that speaks frames, or anything else."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=WAIT_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.socket.close()

    def send(self, *bodies: bytes) -> None:
        self.send_raw(b"".join(struct.pack(">i", len(body)) + body for body in bodies))

    def send_raw(self, data: bytes) -> None:
        self.socket.sendall(data)

    def receive(self) -> bytes:
        (size,) = struct.unpack(">i", self.receive_raw(4))
        return self.receive_raw(size)

    def receive_raw(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            chunk = self.socket.recv(size - len(data))
            if not chunk:
                raise EOFError(f"the server hung up after {len(data)} of {size} bytes")
            data += chunk
        return bytes(data)

    def ask(self, body: bytes) -> bytes:
        self.send(body)
        return self.receive()

    def reset(self) -> None:
        """Closes with an RST."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def assert_hung_up(self) -> None:
        """The server has closed the connection, with a reset if it had unread data."""
        try:
            assert self.socket.recv(1) == b""
        except ConnectionResetError:
            pass


class Bench:
    """Starts servers, on a clock that only the test moves."""

    def __init__(self) -> None:
        self.own_threads = OwnThreads()
        self.clock = ManualClock()
        self.failures = Failures()
        self.servers: list[SocketServer] = []
        self.threads: list[threading.Thread] = []
        self.channels: list[RequestChannel] = []

    def serve(
        self,
        handle: Callable[[Request], None] | RequestChannel,
        *,
        clock: Clock | None = None,
        port: int = 0,
        threads: int = 1,
        control_handle: Callable[[Request], None] | None = None,
        new_authenticator: NewAuthenticator | None = None,
        **limits: Any,
    ) -> SocketServer:
        listeners = [ListenerConfig(name=DATA, port=port, new_authenticator=new_authenticator)]
        if control_handle is not None:
            listeners.append(ListenerConfig(name=CONTROL, is_control_plane=True))
        server = SocketServer(
            ServerConfig(listeners=listeners, num_network_threads=threads, limits=Limits(**limits)),
            handle,
            clock or self.clock,
            self.failures,
            1,
            control_handle=control_handle,
        )
        self.servers.append(server)
        server.start()
        return server

    def handle_from(self, channel: RequestChannel, handle: Callable[[Request], None]) -> None:
        """Starts a handler thread for `channel`."""

        def run() -> None:
            while (request := channel.receive()) is not None:
                handle(request)

        self.channels.append(channel)
        self.threads.append(threading.Thread(target=run, daemon=True))
        self.threads[-1].start()

    def close(self) -> None:
        for server in self.servers:
            server.kill()
        for channel in self.channels:
            channel.close()
        for thread in self.threads:
            thread.join(WAIT_S)


def connect(server: SocketServer, listener: str = DATA) -> Peer:
    return Peer(server.bound_port(listener))


def echo(request: Request) -> None:
    request.reply([b"re:", request.frame])


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.fixture
def bench() -> Iterator[Bench]:
    gc.collect()  # collects sockets of earlier tests, or they would count here
    before = open_descriptors()
    bench = Bench()
    yield bench
    bench.close()
    bench.failures.check()
    assert bench.own_threads.names() == []
    assert open_descriptors() <= before  # one of an earlier test may have been closed since


class Inbox:
    """A handler that keeps requests for the test to answer."""

    def __init__(self) -> None:
        self._arrived = threading.Semaphore(0)
        self.requests: list[Request] = []

    def __call__(self, request: Request) -> None:
        self.requests.append(request)
        self._arrived.release()

    def next(self) -> Request:
        """Waits for the next request and returns it."""
        assert self._arrived.acquire(timeout=WAIT_S), "no request arrived"
        return self.requests[-1]
