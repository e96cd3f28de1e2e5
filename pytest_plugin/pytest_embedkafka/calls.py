"""Calls from the workers of pytest-xdist to the process that distributes the tests.

A call is a connection over loopback. Both sides prove that they know a key, which workers get from
xdist; then it carries one pickled question and one pickled answer. A worker that dies costs its
call.

Owner: `CallServer`, with one thread that accepts and one for each call under way.
"""

import threading
from collections.abc import Callable
from typing import Any, Final, NamedTuple

_LOOPBACK: Final = "127.0.0.1"
_BACKLOG: Final = 128
_PATIENCE_S: Final = 10.0


class Place(NamedTuple):
    """Where to call."""

    host: str
    port: int
    key: str
    """In hexadecimal digits."""


class CallServer:
    """Answers calls until it is closed. Any: questions and answers are whatever pickle takes."""

    def __init__(self, name: str, answer: Callable[[Any], Any]) -> None:
        """`answer` may be called by several threads; the caller gets what it raises."""
        import secrets
        from multiprocessing.connection import Listener

        self._name = name
        self._answer = answer
        self._key = secrets.token_bytes(16)
        # Without the key: who says nothing must not keep others from being accepted.
        self._listener = Listener((_LOOPBACK, 0), family="AF_INET", backlog=_BACKLOG)
        _, port = self._listener.address
        self.place = Place(_LOOPBACK, port, self._key.hex())
        self._is_closing = False
        self._calls: list[threading.Thread] = []
        self._thread = threading.Thread(target=self._accept, name=name, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the threads; all workers have ended."""
        from multiprocessing.connection import Client

        self._is_closing = True
        with Client(self._listener.address):
            self._thread.join()
        self._listener.close()
        for thread in self._calls:
            thread.join(_PATIENCE_S)

    def _accept(self) -> None:
        while True:
            try:
                connection = self._listener.accept()
            except OSError:
                continue  # the worker died
            if self._is_closing:
                connection.close()
                return
            name = f"{self._name}-call"
            thread = threading.Thread(
                target=self._serve, args=(connection,), name=name, daemon=True
            )
            self._calls = [call for call in self._calls if call.is_alive()] + [thread]
            thread.start()

    def _serve(self, connection: Any) -> None:
        from multiprocessing import AuthenticationError
        from multiprocessing.connection import answer_challenge, deliver_challenge

        try:
            with connection:
                deliver_challenge(connection, self._key)
                answer_challenge(connection, self._key)
                connection.send(self._result(connection.recv()))
        except (OSError, EOFError, AuthenticationError):
            return  # the worker died, or it was another process

    def _result(self, question: Any) -> tuple[Any, Exception | None]:
        from embedkafka import EmbedKafkaError

        try:
            return self._answer(question), None
        except EmbedKafkaError as error:
            return None, error
        except Exception as error:  # the caller raises it; not every kind can be pickled
            return None, EmbedKafkaError(f"{type(error).__name__}: {error}")


def call(place: Place, question: Any) -> Any:
    """The answer; raises what the server's `answer` raised, or that it does not answer."""
    from multiprocessing import AuthenticationError
    from multiprocessing.connection import Client

    from embedkafka import EmbedKafkaError

    try:
        key = bytes.fromhex(place.key)
        with Client((place.host, place.port), authkey=key) as connection:
            connection.send(question)
            answer, failure = connection.recv()
    except (OSError, EOFError, AuthenticationError) as error:
        raise EmbedKafkaError(
            f"the process that distributes the tests does not answer: {error!r}"
        ) from error
    if failure is not None:
        raise failure
    return answer
