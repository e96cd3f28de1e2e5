"""Handler threads that start and end while requests arrive."""

import threading

from embedkafka.broker.handler_pool import HandlerPool
from embedkafka.runtime.clock import ManualClock
from embedkafka.runtime.failures import Failures
from embedkafka.wire.net.request_channel import Request, RequestChannel
from tests.unit.wire.net.requests import a_request, never

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

    pool = HandlerPool("ek-test-handler", 1, channel, handle, ManualClock(), failures)
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
    pool = HandlerPool(
        "ek-test-handler", 1, channel, lambda request: never(), ManualClock(), failures
    )
    pool.resize(2)
    pool.start()
    assert len(own_threads()) == 2
    pool.close()


def test_a_pool_tells_how_much_time_its_threads_spare_once_it_is_asked() -> None:
    channel, failures, clock = RequestChannel(), Failures(), ManualClock()
    began, go_on = threading.Event(), threading.Event()

    def handle(request: Request) -> None:
        began.set()
        go_on.wait(WAIT_S)

    pool = HandlerPool("ek-test-handler", 2, channel, handle, clock, failures)
    pool.start()
    assert pool._busy is None
    pool.measure(on=True)
    assert pool.idle_share == 1.0
    clock.advance(50)
    channel.offer(a_request(), never)
    assert began.wait(WAIT_S)
    clock.advance(50)  # one of two threads worked half of the time
    idle = pool.idle_share
    go_on.set()
    pool.close()
    assert idle == 0.75
    failures.check()
