"""One Spark Connect server for all workers of pytest-xdist.

The process that distributes the tests starts it when the first worker asks for it, which a worker
does when a test first uses `spark`.
Owner: `_Server`, whose lock lets one call start it; `pytest_sessionfinish` ends it after all
workers.
"""

import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Final

import pytest

from pytest_embedkafka.calls import CallServer, Place, call
from pytest_embedkafka.options import Options, read_options

_INPUT: Final = "embedkafka_spark"


class SharedSpark:
    """A plugin for the distributing process."""

    def __init__(self, config: pytest.Config, progress: Callable[[str], None]) -> None:
        self._options = read_options(config)
        self._progress = progress
        self._server: _Server | None = None
        self._calls: CallServer | None = None

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tells a new worker where to ask. Any: xdist may not be installed."""
        if self._options.spark_remote:
            return
        if self._calls is None:
            server = self._server = _Server(self._options, self._progress)
            self._calls = CallServer("ek-spark-sharing", lambda _: server.require_address())
        node.workerinput[_INPUT] = tuple(self._calls.place)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        if self._calls is not None:
            self._calls.close()
        if self._server is not None:
            self._server.close()


class _Server:
    """The Spark Connect server, which starts with the first question for its address."""

    def __init__(self, options: Options, progress: Callable[[str], None]) -> None:
        self._options = options
        self._progress = progress
        self._running = ExitStack()
        self._lock = threading.Lock()
        self._address: str | None = None
        self._failure: Exception | None = None

    def close(self) -> None:
        self._running.close()

    def require_address(self) -> str:
        """The server's address; raises why there is none, each time the same."""
        with self._lock:
            if self._failure is not None:
                raise self._failure
            if self._address is None:
                try:
                    self._address = self._start()
                except Exception as error:
                    self._failure = error
                    raise
            return self._address

    def _start(self) -> str:
        from embedkafka import EmbedKafkaError
        from embedkafka.spark.remote import connect_server

        started = connect_server(
            "pytest",
            master=self._options.spark_master,
            packages=self._options.spark_packages,
            config=self._options.spark_config,
            archive=self._options.spark_archive,
            progress=self._progress,
        )
        try:
            return self._running.enter_context(started)
        except Exception as error:
            raise EmbedKafkaError(
                "the Spark Connect server of all workers did not start: "
                f"{type(error).__name__}: {error}"
            ) from error


def find_shared_server(config: pytest.Config) -> str | None:
    """In a worker, the address of the shared Spark Connect server; waits until it runs."""
    given = getattr(config, "workerinput", {})
    return str(call(Place(*given[_INPUT]), "spark")) if _INPUT in given else None
