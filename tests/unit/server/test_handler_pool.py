"""Handler threads that start and end while requests arrive."""

import threading

from embedkafka.net.request_channel import Request, RequestChannel
from embedkafka.runtime.failures import Failures
from embedkafka.server.handler_pool import HandlerPool
from tests.unit.net.test_request_channel import a_request, never

WAIT_S = 10


def own_threads() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name.startswith("ek-test-handler")]


def test_a_pool_grows_and_shrinks_while_it_runs() -> None:
    channel, failures = RequestChannel(), Failures()
    busy = threading.Semaphore(0)
    go_on = threading.Event()

    def handle(request: Request) -> None:
        busy.release()
        go_on.wait(WAIT_S)

    pool = HandlerPool("ek-test-handler", 1, channel, handle, failures)
    pool.start()
    pool.resize(3)
    for _ in range(3):
        channel.offer(a_request(), never)
    for _ in range(3):
        assert busy.acquire(timeout=WAIT_S)  # three at once, so there are three threads
    threads = own_threads()
    pool.resize(0)
    go_on.set()
    for thread in threads:
        thread.join(WAIT_S)
    assert not own_threads()  # the channel is still open, so the new size ended them
    pool.close()
    failures.check()


def test_a_pool_that_has_not_started_begins_with_the_new_size() -> None:
    channel, failures = RequestChannel(), Failures()
    pool = HandlerPool("ek-test-handler", 1, channel, lambda request: never(), failures)
    pool.resize(2)
    pool.start()
    assert len(own_threads()) == 2
    pool.close()
