"""A busy thread does not keep its cluster, or a command, from ending."""

import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from embedkafka import BackgroundFailure, EmbeddedKafka
from embedkafka.runtime import threads
from embedkafka.server.dispatch import Dispatcher
from tests.cluster.footprint import our_directories, our_threads, refuses

PATIENCE_S = 60

#: `embedkafka` with handlers that never return from a request of the client `spin`.
RUNNER = """
import sys
from embedkafka.runtime import threads
from embedkafka.server.dispatch import Dispatcher

threads.PATIENCE_S = 0.5
handle = Dispatcher.handle

def spin(self, request):
    if b"spin" in bytes(request.frame):
        print("SPINNING", flush=True)
        while True:
            pass
    handle(self, request)

Dispatcher.handle = spin
from embedkafka.cli import main
sys.exit(main())
"""

SENDS_SPIN = """
import os
from confluent_kafka.admin import AdminClient
admin = AdminClient({
    "bootstrap.servers": os.environ["EMBEDKAFKA_BOOTSTRAP"], "client.id": "spin", "log_level": 0
})
try:
    admin.list_topics(timeout=1)
except Exception:
    pass
"""


class Spinning:
    """Handlers that compute until the test releases them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
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
        monkeypatch.setattr(threads, "PATIENCE_S", 0.5)

    def begin(self, kafka: EmbeddedKafka) -> None:
        self._client = AdminClient(
            {
                "bootstrap.servers": kafka.bootstrap_servers,
                "log_level": 0,
                "client.id": "spin",
            }
        )
        self._asking = threading.Thread(target=self._ask)
        self._asking.start()
        assert self.spins.wait(PATIENCE_S)

    def _ask(self) -> None:
        try:
            self._client.list_topics(timeout=PATIENCE_S)
        except Exception:
            pass  # the cluster is closed


def await_ends(besides: Any = None) -> None:
    for thread in threading.enumerate():
        if thread.name.startswith("ek-") and thread is not besides:
            thread.join(PATIENCE_S)


@pytest.fixture
def spinning(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Spinning]:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    spinning = Spinning(monkeypatch)
    yield spinning
    spinning.ends.set()
    await_ends()


@pytest.mark.parametrize("handlers", [0, 2])
def test_a_cluster_ends_though_a_handler_does_not(spinning: Spinning, handlers: int) -> None:
    kafka = EmbeddedKafka(brokers=2, config={"num.io.threads": handlers}).start()
    addresses = kafka.bootstrap_servers.split(",")
    spinning.begin(kafka)
    kafka.close()
    assert all(map(refuses, addresses))
    assert our_directories() == set()
    name = spinning.thread.name
    assert ("processor" in name) == (handlers == 0)
    with pytest.raises(BackgroundFailure, match=rf"(?s)thread {name}: .*is still at.*in spin"):
        kafka.check()
    await_ends(besides=spinning.thread)  # on a busy machine they take a while
    assert our_threads() == {name}


def test_what_a_busy_broker_keeps_is_left_in_order(spinning: Spinning, tmp_path: Path) -> None:
    kafka = EmbeddedKafka(data_dir=tmp_path / "data").start()
    kafka.topic("orders").send("kept")
    spinning.begin(kafka)
    kafka.close()
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
        servers = serve.stdout.readline().split()[1]
        client = subprocess.Popen(
            [sys.executable, "-c", SENDS_SPIN], env={"EMBEDKAFKA_BOOTSTRAP": servers}
        )
        assert serve.stdout.readline() == "SPINNING\n"
        _, errors = serve.communicate(timeout=PATIENCE_S)
        client.wait(PATIENCE_S)
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
