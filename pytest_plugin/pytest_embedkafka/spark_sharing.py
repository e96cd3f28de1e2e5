"""One Spark Connect server for all workers of pytest-xdist.

The process that distributes the tests starts it when the first worker asks for it, which a worker
does when a test first uses `spark`.
Owner: `_Server`, whose thread starts the server; `pytest_sessionfinish` ends it after all workers.
"""

import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest

from pytest_embedkafka.options import Options, read_options

_ADDRESS, _KEY = "embedkafka_spark_address", "embedkafka_spark_key"
_FINISHED = "finished"


class SharedSpark:
    """A plugin for the distributing process."""

    def __init__(self, config: pytest.Config, progress: Callable[[str], None]) -> None:
        self._options = read_options(config)
        self._progress = progress
        self._server: _Server | None = None

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tells a new worker where to ask. Any: xdist may not be installed."""
        if self._options.spark_remote:
            return
        if self._server is None:
            self._server = _Server(self._options, self._progress)
        node.workerinput[_ADDRESS] = self._server.address
        node.workerinput[_KEY] = self._server.key.hex()

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        if self._server is not None:
            self._server.close()


class _Server:
    """Answers each worker with the server's address, or with why there is none."""

    def __init__(self, options: Options, progress: Callable[[str], None]) -> None:
        import secrets
        from multiprocessing.connection import Listener

        self.key = secrets.token_bytes(16)
        self._listener = Listener(authkey=self.key)
        self._options = options
        self._progress = progress
        self._running = ExitStack()
        self._answer: tuple[str, str] | None = None
        self._thread = threading.Thread(target=self._serve, name="ek-spark-sharing", daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        return str(self._listener.address)

    def close(self) -> None:
        """Ends the thread, then the Spark Connect server; all workers have ended."""
        from multiprocessing.connection import Client

        with Client(self.address, authkey=self.key) as connection:
            connection.send(_FINISHED)
        self._thread.join()
        self._listener.close()
        self._running.close()

    def _serve(self) -> None:
        from multiprocessing import AuthenticationError

        while True:
            try:
                with self._listener.accept() as connection:
                    if connection.recv() == _FINISHED:
                        return
                    connection.send(self._require_answer())
            except (OSError, EOFError, AuthenticationError):
                continue  # the worker died, or it was another process

    def _require_answer(self) -> tuple[str, str]:
        if self._answer is None:
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
                self._answer = self._running.enter_context(started), ""
            except Exception as error:  # the worker raises it in its test
                self._answer = "", f"{type(error).__name__}: {error}"
        return self._answer


def find_shared_server(config: pytest.Config) -> str | None:
    """In a worker, the address of the shared Spark Connect server; waits until it runs."""
    given = getattr(config, "workerinput", {})
    if _ADDRESS not in given:
        return None
    from multiprocessing.connection import Client

    from embedkafka import EmbedKafkaError

    with Client(given[_ADDRESS], authkey=bytes.fromhex(given[_KEY])) as connection:
        connection.send("spark")
        remote, failure = connection.recv()
    if failure:
        raise EmbedKafkaError(f"the Spark Connect server of all workers did not start: {failure}")
    return str(remote)
