"""A busy thread does not keep its cluster, or a command, from ending."""

import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from embedkafka import BackgroundFailure, EmbeddedKafka
from embedkafka.broker.dispatch import Dispatcher
from embedkafka.runtime import threads
from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.headers import encode_request_header
from tests.cluster.footprint import our_directories, refuses
from tests.doubles.own_threads import OwnThreads
from tests.presence import present

PATIENCE_S = 60

_HEADER = encode_request_header(ApiKey.API_VERSIONS, 0, 1, "spin")
SPIN = struct.pack(">i", len(_HEADER)) + _HEADER
"""A request whose handler never returns. Stock clients would send theirs to several brokers."""

#: `embedkafka` with handlers that never return from a request of the client `spin`.
RUNNER = """
import os
import sys
from pathlib import Path
from embedkafka.runtime import threads
from embedkafka.broker.dispatch import Dispatcher

threads.PATIENCE_S = 0.5
handle = Dispatcher.handle

def spin(self, request):
    if b"spin" in bytes(request.frame):
        Path(os.environ["TMPDIR"], "spins").touch()
        while True:
            pass
    handle(self, request)

Dispatcher.handle = spin
from embedkafka.cli import main
sys.exit(main())
"""

#: Ends once a handler spins.
SENDS_SPIN = f"""
import os
import socket
import time
from pathlib import Path
host, _, port = os.environ["EMBEDKAFKA_BOOTSTRAP"].rpartition(":")
with socket.create_connection((host, int(port))) as client:
    client.sendall({SPIN!r})
    while not Path(os.environ["TMPDIR"], "spins").exists():
        time.sleep(0.01)
"""


class Spinning:
    """A handler that computes until the test releases it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self.own_threads = OwnThreads()
        self.spins = threading.Event()
        self.ends = threading.Event()
        handle = Dispatcher.handle

        def spin(dispatcher: Any, request: Any) -> None:
            if b"spin" in bytes(request.frame):
                self.thread = threading.current_thread()
                self.spins.set()
                while not self.ends.is_set():
                    pass
            handle(dispatcher, request)

        monkeypatch.setattr(Dispatcher, "handle", spin)

    def close_around(self, kafka: EmbeddedKafka) -> None:
        """Lets a handler of the first broker spin, and closes the cluster with little patience."""
        host, _, port = kafka.bootstrap_servers.split(",")[0].rpartition(":")
        with socket.create_connection((host, int(port))) as client:
            client.sendall(SPIN)
            assert self.spins.wait(PATIENCE_S)
            with self._monkeypatch.context() as patched:
                patched.setattr(threads, "PATIENCE_S", 0.5)
                kafka.close()


@pytest.fixture
def spinning(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Spinning]:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    spinning = Spinning(monkeypatch)
    yield spinning
    spinning.ends.set()
    spinning.own_threads.await_ends()


@pytest.mark.parametrize("handlers", [0, 2])
def test_a_cluster_ends_though_a_handler_does_not(spinning: Spinning, handlers: int) -> None:
    kafka = EmbeddedKafka(brokers=2, config={"num.io.threads": handlers}).start()
    addresses = kafka.bootstrap_servers.split(",")
    spinning.close_around(kafka)
    assert all(map(refuses, addresses))
    assert our_directories() == set()
    name = spinning.thread.name
    assert ("processor" in name) == (handlers == 0)
    with pytest.raises(BackgroundFailure, match=rf"(?s)thread {name}: .*is still at.*in spin"):
        kafka.check()
    spinning.own_threads.await_ends(besides=spinning.thread)  # a busy machine takes a while
    assert spinning.own_threads.names() == [name]


def test_what_a_busy_broker_keeps_is_left_in_order(spinning: Spinning, tmp_path: Path) -> None:
    kafka = EmbeddedKafka(data_dir=tmp_path / "data").start()
    kafka.topic("orders").send("kept")
    spinning.close_around(kafka)
    with EmbeddedKafka(data_dir=tmp_path / "data") as again:
        assert [message.text for message in again.existing_topic("orders").read()] == ["kept"]


def test_serve_ends_with_its_stdin_though_a_handler_does_not(tmp_path: Path) -> None:
    serve = subprocess.Popen(
        [sys.executable, "-c", RUNNER, "serve"],
        env={"TMPDIR": str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with serve:
        servers = present(serve.stdout).readline().split()[1]
        subprocess.run(
            [sys.executable, "-c", SENDS_SPIN],
            env={"EMBEDKAFKA_BOOTSTRAP": servers, "TMPDIR": str(tmp_path)},
            check=True,
            timeout=PATIENCE_S,
        )
        _, errors = serve.communicate(timeout=PATIENCE_S)
    assert serve.returncode == 1
    assert "ek-b1-processor-0 did not end" in errors
    assert list(tmp_path.glob("embedkafka-*")) == []


def test_up_ends_though_a_handler_does_not(tmp_path: Path) -> None:
    up = subprocess.run(
        [sys.executable, "-c", RUNNER, "up", "--", sys.executable, "-c", SENDS_SPIN],
        env={"TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert up.returncode == 1
    assert "ek-b1-processor-0 did not end" in up.stderr
