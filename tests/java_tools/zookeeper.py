"""A real ZooKeeper server in a separate process, for the contract tests of our stores."""

import shutil
import socket
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.java_tools import maven
from tests.java_tools.jvm import QUICK_START, JavaProcess
from tests.java_tools.ports import free_ports

VERSION: Final = "3.9.5"
START_TIMEOUT_SECONDS: Final = 60.0


class ZooKeeperServer:
    """One server on a free loopback port for the length of a `with` block."""

    def __init__(self, *, version: str = VERSION, tick_time_ms: int = 200) -> None:
        self._version = version
        #: The shortest session is two ticks; ZooKeeper's default is 2000 ms.
        self._tick_time_ms = tick_time_ms
        self._directory = Path()
        self._server: JavaProcess | None = None
        self.port = 0
        self.start_seconds = 0.0

    def __enter__(self) -> Self:
        class_path = zookeeper_classpath(self._version)
        self._directory = Path(tempfile.mkdtemp(prefix="ek-zookeeper-"))
        (self.port,) = free_ports(1)
        settings = self._directory / "zoo.cfg"
        settings.write_text(self._settings())
        began = time.monotonic()
        self._server = JavaProcess(
            [
                *QUICK_START,
                "-Xmx256m",
                "-cp",
                class_path,
                "org.apache.zookeeper.server.ZooKeeperServerMain",
                str(settings),
            ],
            log=self._directory / "zookeeper.out",
        )
        try:
            # The server accepts connections before it serves them; a session opened then would wait
            # long.
            self._server.await_answer(
                self._answers_srvr,
                what=f"ZooKeeper {self._version} on port {self.port}",
                timeout_s=START_TIMEOUT_SECONDS,
            )
        except BaseException:
            self.kill()
            raise
        self.start_seconds = time.monotonic() - began
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()

    @property
    def connect_string(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._server is not None, "the server runs only inside its `with` block"
        return self._server.pid

    def kill(self) -> None:
        """Kills the server and removes its data."""
        if self._server is not None:
            self._server.kill()
        shutil.rmtree(self._directory, ignore_errors=True)

    def log_tail(self, lines: int = 40) -> str:
        return self._server.log_tail(lines) if self._server else ""

    def _settings(self) -> str:
        return (
            f"tickTime={self._tick_time_ms}\ndataDir={self._directory / 'data'}\n"
            f"clientPort={self.port}\nclientPortAddress=127.0.0.1\nmaxClientCnxns=0\n"
            "admin.enableServer=false\n4lw.commands.whitelist=srvr\n"
        )

    def _answers_srvr(self) -> bool:
        with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
            connection.sendall(b"srvr")
            return connection.recv(4096).startswith(b"Zookeeper version")


def zookeeper_classpath(version: str = VERSION) -> str:
    """The class path of the server, with the run-time dependencies that its pom leaves optional."""
    return maven.classpath(
        f"org.apache.zookeeper:zookeeper:{version}",
        "io.dropwizard.metrics:metrics-core:4.1.12.1",
        "org.xerial.snappy:snappy-java:1.1.10.5",
    )
