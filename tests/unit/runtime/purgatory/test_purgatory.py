"""Operations, and the watch lists in which they wait."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from embedkafka.runtime.clock import ManualClock
from embedkafka.runtime.failures import BackgroundFailure, Failures
from embedkafka.runtime.locks import LEAF_RANK, ranked_lock
from embedkafka.runtime.purgatory.operation import DelayedOperation
from embedkafka.runtime.purgatory.purgatory import Purgatory
from embedkafka.runtime.purgatory.timer import SystemTimer

WAIT_S = 10
TIMEOUT_MS = 500


class Operation(DelayedOperation):
    """Completes once it is `ready`, and counts its calls."""

    def __init__(self, delay_ms: float = TIMEOUT_MS, *, ready: bool = False) -> None:
        super().__init__(delay_ms)
        self.ready = ready
        self.tries = 0
        self.completions = 0
        self.expired = threading.Event()

    def try_complete(self) -> bool:
        self.tries += 1
        return self.ready

    def on_complete(self) -> None:
        self.completions += 1

    def on_expiration(self) -> None:
        self.expired.set()


class KafkaStyle(Operation):
    """Completes itself in `try_complete`, as Kafka's operations do."""

    def try_complete(self) -> bool:
        return self.ready and self.force_complete()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def failures() -> Iterator[Failures]:
    failures = Failures()
    yield failures
    failures.check()


@pytest.fixture
def timer(clock: ManualClock, failures: Failures) -> Iterator[SystemTimer]:
    timer = SystemTimer(clock, failures, "ek-b1-timer")
    yield timer
    timer.shutdown()


@pytest.fixture
def purgatory(timer: SystemTimer, failures: Failures) -> Purgatory[Operation]:
    return Purgatory[Operation]("test", timer, failures)


@pytest.mark.parametrize("kind", [Operation, KafkaStyle])
def test_an_operation_that_is_ready_completes_at_once_and_is_not_watched(
    purgatory: Purgatory[Operation], timer: SystemTimer, kind: Any
) -> None:
    operation = kind(ready=True)
    assert purgatory.try_complete_else_watch(operation, ["a"])
    assert operation.completions == 1
    assert (purgatory.watched, purgatory.delayed, timer.pending) == (0, 0, 0)


@pytest.mark.parametrize("kind", [Operation, KafkaStyle])
def test_a_change_completes_what_waits_under_its_key(
    purgatory: Purgatory[Operation], timer: SystemTimer, kind: Any
) -> None:
    operation, other = kind(), kind()
    assert not purgatory.try_complete_else_watch(operation, ["a", "b"])
    assert not purgatory.try_complete_else_watch(other, ["c"])
    assert purgatory.check_and_complete("a") == 0
    operation.ready = other.ready = True
    assert purgatory.check_and_complete("b") == 1
    assert purgatory.check_and_complete("a") == 0
    assert (operation.completions, other.completions) == (1, 0)
    assert (purgatory.delayed, timer.pending) == (1, 1)


class Broken(Operation):
    """Raises when it answers."""

    def on_complete(self) -> None:
        super().on_complete()
        raise ValueError("broken")


class Undecided(Operation):
    """Raises when it decides."""

    def try_complete(self) -> bool:
        if self.ready:
            raise ValueError("broken")
        return False


@pytest.mark.parametrize("kind", [Broken, Undecided])
def test_an_operation_that_fails_keeps_no_other_from_completing(
    purgatory: Purgatory[Operation], failures: Failures, kind: Any
) -> None:
    operations = [Operation(), kind(), Operation()]
    for operation in operations:
        purgatory.try_complete_else_watch(operation, ["a"])
        operation.ready = True
    assert purgatory.check_and_complete("a") == 2
    assert operations[0].completions == operations[2].completions == 1
    with pytest.raises(BackgroundFailure, match=r"^1 background failure\n(?s:.*)broken"):
        failures.check()


def test_an_operation_that_fails_keeps_no_other_from_ending_at_shutdown(
    purgatory: Purgatory[Operation], failures: Failures
) -> None:
    operations = [Operation(), Broken(), Operation()]
    for operation in operations:
        purgatory.try_complete_else_watch(operation, ["a"])
    purgatory.shutdown()
    assert [operation.completions for operation in operations] == [1, 1, 1]
    with pytest.raises(BackgroundFailure, match="broken"):
        failures.check()


def test_an_unknown_key_completes_nothing(purgatory: Purgatory[Operation]) -> None:
    assert purgatory.check_and_complete("nobody") == 0


def test_a_change_between_the_first_try_and_the_watching_is_not_missed(
    purgatory: Purgatory[Operation],
) -> None:
    class ReadyOnSecondTry(Operation):
        def try_complete(self) -> bool:
            self.tries += 1
            return self.tries == 2

    operation = ReadyOnSecondTry()
    assert purgatory.try_complete_else_watch(operation, ["a"])
    assert operation.completions == 1


def test_an_operation_expires_when_its_time_has_come(
    purgatory: Purgatory[Operation], clock: ManualClock, timer: SystemTimer
) -> None:
    operation = Operation()
    purgatory.try_complete_else_watch(operation, ["a"])
    clock.advance(TIMEOUT_MS)
    assert operation.expired.wait(WAIT_S)
    assert operation.completions == 1
    assert purgatory.delayed == 0


def test_a_completed_operation_does_not_expire(purgatory: Purgatory[Operation]) -> None:
    operation = Operation()
    purgatory.try_complete_else_watch(operation, ["a"])
    assert operation.force_complete()
    assert not operation.force_complete()
    operation.expire()
    assert operation.completions == 1
    assert not operation.expired.is_set()


def test_completing_cancels_the_timer(purgatory: Purgatory[Operation], timer: SystemTimer) -> None:
    operation = Operation()
    purgatory.try_complete_else_watch(operation, ["a"])
    assert timer.pending == 1
    operation.force_complete()
    assert timer.pending == 0


def test_an_operation_completed_while_it_is_tied_to_its_timer_leaves_no_timer_behind(
    timer: SystemTimer,
) -> None:
    operation = Operation()
    task = timer.add(TIMEOUT_MS, operation.expire)
    operation.force_complete()
    operation.expire_with(task)
    assert timer.pending == 0


def test_completed_operations_are_purged_at_the_interval(
    timer: SystemTimer, failures: Failures
) -> None:
    purgatory = Purgatory[Operation]("test", timer, failures, purge_interval=10)
    for _ in range(9):
        operation = Operation()
        purgatory.try_complete_else_watch(operation, ["a", "b"])
        operation.force_complete()
    assert purgatory.watched == 18
    purgatory.try_complete_else_watch(Operation(), ["b"])
    assert purgatory.watched == 1
    assert purgatory.delayed == 1


def test_shutdown_completes_everything_once(
    purgatory: Purgatory[Operation], timer: SystemTimer
) -> None:
    operations = [Operation() for _ in range(3)]
    for operation in operations:
        purgatory.try_complete_else_watch(operation, ["a", "b"])
    purgatory.shutdown()
    assert [operation.completions for operation in operations] == [1, 1, 1]
    assert (purgatory.watched, timer.pending) == (0, 0)


def test_shutdown_of_a_killed_broker_answers_nobody(
    purgatory: Purgatory[Operation], timer: SystemTimer
) -> None:
    operation = Operation()
    purgatory.try_complete_else_watch(operation, ["a"])
    purgatory.shutdown(complete=False)
    assert operation.completions == 0
    assert (purgatory.watched, timer.pending) == (0, 0)


def test_after_shutdown_operations_do_not_wait(purgatory: Purgatory[Operation]) -> None:
    purgatory.shutdown()
    operation = Operation()
    assert purgatory.try_complete_else_watch(operation, ["a"])
    assert operation.completions == 1


def test_answering_happens_with_no_lock_of_the_operation_held(
    purgatory: Purgatory[Operation],
) -> None:
    """An answer may complete other operations, whose locks rank the same, and take any lock."""
    second = Operation()
    purgatory.try_complete_else_watch(second, ["second"])

    class First(Operation):
        def on_complete(self) -> None:
            super().on_complete()
            with ranked_lock("anything", 1):
                second.ready = True
                assert purgatory.check_and_complete("second") == 1

    first = First()
    purgatory.try_complete_else_watch(first, ["first"])
    first.ready = True
    assert purgatory.check_and_complete("first") == 1
    assert second.completions == 1


def test_deciding_may_take_locks_of_a_higher_rank_and_check_its_own_key(
    purgatory: Purgatory[Operation],
) -> None:
    class Curious(Operation):
        def try_complete(self) -> bool:
            self.tries += 1
            with ranked_lock("partition", LEAF_RANK - 1):
                pass
            if self.tries == 1:
                assert not self.maybe_try_complete()
            return self.tries >= 2

    operation = Curious()
    assert operation.maybe_try_complete()
    assert operation.tries == 2


def test_a_failing_decision_leaves_the_operation_waiting(purgatory: Purgatory[Operation]) -> None:
    class Failing(Operation):
        def try_complete(self) -> bool:
            if self.tries == 0:
                self.tries += 1
                raise RuntimeError("cannot tell")
            return True

    operation = Failing()
    with pytest.raises(RuntimeError):
        operation.maybe_try_complete()
    assert operation.maybe_try_complete()


class Slow(Operation):
    """Blocks in `try_complete` until the test releases it."""

    def __init__(self) -> None:
        super().__init__()
        self.deciding = threading.Event()
        self.go_on = threading.Event()
        self.overlaps: list[str] = []

    def try_complete(self) -> bool:
        self.tries += 1
        answer = self.ready
        if self.tries == 1:
            self.deciding.set()
            assert self.go_on.wait(WAIT_S)
            if self.completions:
                self.overlaps.append("answered while deciding")
        return answer


def in_thread(target: Any) -> threading.Thread:
    thread = threading.Thread(target=target, daemon=True)
    thread.start()
    return thread


def test_a_change_while_another_thread_decides_is_not_lost() -> None:
    operation = Slow()
    decider = in_thread(operation.maybe_try_complete)
    assert operation.deciding.wait(WAIT_S)
    operation.ready = True
    assert not operation.maybe_try_complete(), "this thread must not wait for the other"
    operation.go_on.set()
    decider.join(WAIT_S)
    assert operation.completions == 1
    assert operation.tries == 2


def test_a_check_while_another_thread_decides_makes_it_look_again_once() -> None:
    operation = Slow()
    decider = in_thread(operation.maybe_try_complete)
    assert operation.deciding.wait(WAIT_S)
    assert not operation.maybe_try_complete()
    operation.go_on.set()
    decider.join(WAIT_S)
    assert not decider.is_alive()
    assert (operation.tries, operation.completions) == (2, 0)


def test_a_forced_answer_does_not_run_beside_a_decision() -> None:
    operation = Slow()
    decider = in_thread(operation.maybe_try_complete)
    assert operation.deciding.wait(WAIT_S)
    forcer = in_thread(operation.force_complete)
    operation.go_on.set()
    decider.join(WAIT_S)
    forcer.join(WAIT_S)
    assert operation.completions == 1
    assert operation.overlaps == []


def test_many_threads_complete_an_operation_once(purgatory: Purgatory[Operation]) -> None:
    operations = [Operation() for _ in range(200)]
    for operation in operations:
        purgatory.try_complete_else_watch(operation, ["key"])
    start = threading.Barrier(4)
    counts = []

    def change() -> None:
        start.wait(WAIT_S)
        for operation in operations:
            operation.ready = True
            counts.append(purgatory.check_and_complete("key"))

    for thread in [in_thread(change) for _ in range(4)]:
        thread.join(WAIT_S)
    assert [operation.completions for operation in operations] == [1] * 200
    assert sum(counts) == 200
    assert purgatory.watched == 0
