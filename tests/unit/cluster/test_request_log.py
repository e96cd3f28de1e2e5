"""Many threads note requests in one log while others read it."""

import threading
from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest

from embedkafka.cluster import request_log
from embedkafka.cluster.request_log import RequestLog
from embedkafka.runtime.ids import BrokerId
from tests.presence import present

LARGE = memoryview(bytes(request_log._SMALL_BYTES + 1))


class Unsteady(deque[Any]):
    """Changes while its first copies are made, as one may that has no GIL to guard it."""

    refused = 0

    def copy(self) -> "Unsteady":
        if self.refused < 3:
            self.refused += 1
            raise RuntimeError("deque mutated during iteration")
        return super().copy()


class Interrupted(RequestLog):
    """Lets another thread note a request between a look at the count and its change."""

    other: threading.Thread | None = None

    @property
    def _bytes(self) -> int:
        count = self._count_so_far
        if self.other is None:
            self.other = threading.Thread(target=noting(self), args=[arrival(LARGE)])
            self.other.start()
            self.other.join(0.2)  # it waits for us if the count is locked
        return count

    @_bytes.setter
    def _bytes(self, count: int) -> None:
        self._count_so_far = count


def noting(log: RequestLog) -> Any:
    return log.around(BrokerId(1), lambda request: None, lambda topic_id: None, ["PLAINTEXT"])


def arrival(frame: memoryview) -> Any:
    return SimpleNamespace(is_control_plane=False, frame=frame, received_ms=0.0)


def test_every_large_request_is_counted_whichever_thread_notes_it() -> None:
    log = Interrupted()
    noting(log)(arrival(LARGE))
    present(log.other).join()
    assert log._bytes == 2 * len(LARGE)


def test_a_log_that_grows_while_it_is_copied_is_copied_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(request_log, "_MAX_BYTES", 2 * len(LARGE))
    log = RequestLog()
    mark = log.mark()
    log._seen = Unsteady()
    note = noting(log)
    for _ in range(3):
        note(arrival(LARGE))  # the last one drops the bodies of the others
    log._seen.refused = 0
    assert len(log.find(lambda seen: True, mark)) == 3
    log._seen.refused = 0
    assert not log.has_only([18])
