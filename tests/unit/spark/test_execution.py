"""Calls of Spark's own methods, which depend on the release."""

from collections.abc import Callable
from typing import Any

import pytest
from py4j.protocol import Py4JError

from embedkafka.spark.execution import Execution, _defaults


class Method:
    """As Java's reflection shows it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def getName(self) -> str:  # Java's name
        return self._name


class Manager:
    """An object of Scala, with a method for each argument that has a default."""

    def __init__(self, *defaults: int) -> None:
        self._names = [f"startQuery$default${number}" for number in defaults]

    def getClass(self) -> "Manager":  # Java's name
        return self

    def getMethods(self) -> list[Method]:  # Java's name
        return [Method("startQuery"), *map(Method, self._names)]

    def __getattr__(self, name: str) -> Any:
        assert name in self._names, f"Spark has no {name}"
        return lambda: f"the default {name.rpartition('$')[2]}"


@pytest.mark.parametrize(
    ("manager", "second", "further"),
    [
        pytest.param(Manager(7, 8, 9, 10, 11, 12), [], ["11", "12"], id="4.0 to 4.2"),
        pytest.param(Manager(2, 8, 9, 10, 11, 12, 13), ["2"], ["12", "13"], id="4.3"),
    ],
)
def test_arguments_that_a_release_adds_have_their_defaults(
    manager: Manager, second: list[str], further: list[str]
) -> None:
    own = 10 + len(second)
    assert _defaults(manager, "startQuery", [2]) == [f"the default {n}" for n in second]
    rest = _defaults(manager, "startQuery", range(own + 1, own + 11))
    assert rest == [f"the default {n}" for n in further]


class Java:
    """An object of the JVM whose methods return these values, and which has no others."""

    def __init__(self, **returns: Any) -> None:
        self._returns = returns

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *_: self._call(name)

    def _call(self, name: str) -> Any:
        if name not in self._returns:
            raise Py4JError(f"Method {name} does not exist")
        return self._returns[name]


class Children(Java):
    """A sequence of Scala."""

    def __init__(self, *nodes: Any) -> None:
        super().__init__(size=len(nodes))
        self.apply = nodes.__getitem__


def some(value: Any) -> Java:
    """Scala's `Option`, empty for None."""
    return Java(isDefined=value is not None, get=value)


def operator(waits: bool | None) -> Java:
    """An operator of a plan; None if it has no state."""
    state = {} if waits is None else {"shouldRunAnotherBatch": waits}
    return Java(children=Children(), **state)


def plan(batch: int, waits: bool | None, *, watermark_ms: int = 0, allowed: str = "true") -> Java:
    """The plan of a batch, with an operator below its root."""
    return Java(
        currentBatchId=batch,
        executedPlan=Java(children=Children(operator(None), operator(waits))),
        offsetSeqMetadata=Java(batchWatermarkMs=watermark_ms),
        sparkSession=Java(conf=Java(get=allowed)),
    )


def stream(plan: Java | None, *, committed: int | None, **more: Any) -> Java:
    """A query whose last commit, if any, left the watermark at 100."""
    metadata = Java(nextBatchWatermarkMs=100)
    latest = some(None if committed is None else Java(_1=committed, _2=metadata))
    return Java(lastExecution=plan, commitLog=Java(getLatest=latest), **more)


@pytest.mark.parametrize(
    ("last", "committed", "owes"),
    [
        pytest.param(plan(3, True), 3, True, id="state waits for the watermark"),
        pytest.param(plan(3, False), 3, False, id="no state waits for it"),
        pytest.param(plan(3, None), 3, False, id="there is no state"),
        pytest.param(plan(3, True, watermark_ms=100), 3, False, id="it did not move"),
        pytest.param(plan(3, True, allowed="false"), 3, False, id="Spark may not run it"),
        pytest.param(plan(4, False), 3, True, id="a batch is under way"),
        pytest.param(plan(0, False), None, True, id="nothing is committed"),
    ],
)
def test_a_batch_is_owed_if_state_waits_for_the_watermark(
    last: Java, committed: int | None, owes: bool
) -> None:
    assert Execution(stream(last, committed=committed)).owes_batch() is owes


def test_a_trigger_without_a_batch_hides_the_plan_of_the_last_one() -> None:
    """As Spark has it from 4.0 on."""
    before = Java(previousContext=some(Java(executionPlan=plan(3, True))))
    execution = Execution(stream(None, committed=3, getLatestExecutionContext=before))
    assert execution.has_run_batch()
    assert execution.owes_batch()


@pytest.mark.parametrize(
    "context",
    [
        pytest.param({}, id="3.5"),
        pytest.param(
            {"getLatestExecutionContext": Java(previousContext=some(None))}, id="4.0 and later"
        ),
    ],
)
def test_a_query_that_was_started_again_owes_its_first_trigger(context: dict[str, Any]) -> None:
    execution = Execution(stream(None, committed=3, **context))
    assert not execution.has_run_batch()
    assert execution.owes_batch()


@pytest.mark.parametrize(
    ("interval_ms", "said"),
    [
        (3_600_000, "processingTime 1 hour"),
        (90_000, "processingTime 90 seconds"),
        (1500, "processingTime 1500 milliseconds"),
        (0, "ProcessingTimeTrigger(0)"),
    ],
)
def test_an_interval_is_told_as_users_write_it(interval_ms: int, said: str) -> None:
    trigger = Java(
        intervalMs=interval_ms,
        toString=f"ProcessingTimeTrigger({interval_ms})",
        getClass=Java(getSimpleName="ProcessingTimeTrigger"),
    )
    clock = Java(getTimeMillis=3_600_000 * 7 + 200)
    execution = Execution(Java(trigger=trigger, triggerClock=clock))
    assert execution.trigger == said
    if interval_ms:
        assert execution.next_trigger_ms() == interval_ms - 200
