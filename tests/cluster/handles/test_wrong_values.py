"""Whatever a user passes to a public function, a result comes back or one of our errors.

Functions, methods and their parameters are found, not listed: a new one is met without a change
here. Each parameter gets each value of `WRONG`, while the others have good ones; then several are
wrong at once, as Hypothesis draws them.
"""

import dataclasses
import inspect
import math
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Unpack, cast, get_args, get_origin

import pytest
from hypothesis import given
from hypothesis import strategies as st

import embedkafka
import embedkafka.explore
import embedkafka.spark
from embedkafka import (
    BackgroundFailure,
    ConfigError,
    EmbeddedKafka,
    EmbeddedKafkaTestCase,
    EmbedKafkaError,
    InvalidArgument,
    PageServer,
    Security,
)
from embedkafka.spark.scripts.inside import ScriptInside
from embedkafka.spark.scripts.programs import require_program
from embedkafka.spark.scripts.redirections import Redirections
from embedkafka.spark.scripts.running import RunningScript

pytestmark = pytest.mark.timeout(120)  # nothing here waits: a call that hangs is a fault


class Unshowable:
    def __repr__(self) -> str:
        raise RuntimeError("this object has no repr")


WRONG: Mapping[str, Any] = {
    "None": None,
    "True": True,
    "0": 0,
    "-1": -1,
    "2**31 - 1": 2**31 - 1,
    "2**31": 2**31,
    "2**63": 2**63,
    "10**5000": 10**5000,
    "a fraction": 0.1,
    "1e300": 1e300,
    "nan": math.nan,
    "inf": math.inf,
    "no text": "",
    "text": "no-such-thing",
    "NUL": "a\0b",
    "half a surrogate pair": "\ud800",
    "slashes": "../../x",
    "long text": "x" * 70_000,
    "bytes": b"\xff",
    "[]": [],
    "[text]": ["x"],
    "[None]": [None],
    "{}": {},
    "{text: None}": {"x": None},
    "{half a pair: NUL}": {"\ud800": "a\0b"},
    "{number: number}": {10**30: 10**30},
    "a tuple": ("x", 1),
    "a set": {1, "x"},
    "an object": object(),
    "an object without repr": Unshowable(),
    "a class": int,
    "year 1": datetime(1, 1, 1, tzinfo=UTC),
    "year 9999": datetime(9999, 12, 31, tzinfo=UTC),
    "a time without zone": datetime(2030, 1, 1),
}

GOOD: Mapping[str, Any] = {
    "api": "PRODUCE",
    "code": "NOT_ENOUGH_REPLICAS",
    "function": len,
    "group": "readers",
    "ms": 1,
    "name": "orders",
    "offset": 0,
    "operation": "READ",
    "password": "secret",
    "script": len,
    "timeout_s": 0,
    "topic": "orders",
    "user": "alice",
    "value": "v",
    "values": ["v"],
}
"""Arguments that a call needs to get far enough."""

OBJECTS: Mapping[type, Callable[[EmbeddedKafka], object]] = {
    embedkafka.Acls: lambda kafka: kafka.acls,
    embedkafka.BrokerHandle: lambda kafka: kafka.broker(2),
    embedkafka.BrokerHandles: lambda kafka: kafka.brokers,
    embedkafka.Cluster: lambda kafka: kafka,
    embedkafka.ClusterConfig: lambda kafka: kafka.config,
    embedkafka.Disk: lambda kafka: kafka.faults.disk(2),
    embedkafka.EmbeddedKafka: lambda kafka: kafka,
    embedkafka.Fault: lambda kafka: kafka.faults.error("FETCH", "UNKNOWN_SERVER_ERROR", broker=2),
    embedkafka.FaultPlan: lambda kafka: kafka.faults.plan(seed=1, steps=1, allow=["delay"]),
    embedkafka.Faults: lambda kafka: kafka.faults,
    embedkafka.GroupHandle: lambda kafka: kafka.group("readers"),
    embedkafka.Logins: lambda kafka: kafka.logins,
    embedkafka.Metrics: lambda kafka: kafka.metrics(),
    embedkafka.OwnedBroker: lambda kafka: kafka.broker(2),
    embedkafka.OwnedBrokers: lambda kafka: kafka.brokers,
    embedkafka.OwnedGroup: lambda kafka: kafka.group("readers"),
    embedkafka.OwnedTopic: lambda kafka: kafka.existing_topic("orders"),
    embedkafka.Quotas: lambda kafka: kafka.quotas,
    embedkafka.SystemClock: lambda kafka: embedkafka.SystemClock(),
    embedkafka.Topic: lambda kafka: kafka.existing_topic("orders"),
    embedkafka.explore.Options: lambda kafka: embedkafka.explore.Options(
        bootstrap_servers="b:1", directory="d"
    ),
    embedkafka.spark.RunningScript: lambda kafka: RunningScript(
        ScriptInside(
            require_program(len),
            cast(Any, lambda: None),
            Redirections(directory=Path("d"), addresses=str),
            arguments=[],
            environment={},
        ),
        timeout_s=0,
        on_end=lambda: None,
    ),
}
"""How to come by an object of each class that has methods with parameters."""

ACTIONS = (
    embedkafka.spark.AddRecords,
    embedkafka.spark.AdvanceClock,
    embedkafka.spark.CheckLatest,
    embedkafka.spark.CheckTopic,
    embedkafka.spark.Crash,
    embedkafka.spark.Restart,
)
UNCHECKED: Mapping[Callable[..., object], str] = {
    EmbeddedKafkaTestCase.run: "unittest calls it",
    embedkafka.SystemClock.subscribe: "for brokers",
    embedkafka.SystemClock.wait_until: "for brokers",
    embedkafka.spark.local_session: "starts a JVM",
    **dict.fromkeys((action.run for action in ACTIONS), "`check_stream` calls it"),
}

MODULES = (embedkafka, embedkafka.spark, embedkafka.explore)
PUBLIC = [getattr(module, name) for module in MODULES for name in module.__all__]
SECURED = {embedkafka.Acls, embedkafka.Logins}


@dataclasses.dataclass(frozen=True)
class Subject:
    """A public function, and the class whose object it needs as its first argument."""

    function: Callable[..., object]
    cls: type | None
    parameters: Mapping[str, Any]
    """Their annotations, by name."""
    required: frozenset[str]
    listed: str | None = None
    """The parameter that takes all further arguments."""

    def good(self) -> dict[str, Any]:
        needed = self.required | (self.parameters.keys() & {"timeout_s"})
        return {
            name: GOOD.get(name, 1 if self.parameters[name] is int else None) for name in needed
        }

    def call(self, kafka: EmbeddedKafka, /, **arguments: Any) -> object:
        own = [] if self.cls is None else [OBJECTS[self.cls](kafka)]
        more = [] if self.listed is None else [arguments.pop(self.listed, None)]
        return self.function(*own, *more, **arguments)


def subjects() -> Iterator[Subject]:
    for public in PUBLIC:
        if not inspect.isclass(public):
            yield of_function(public, None)
            continue
        if public is EmbeddedKafka:
            yield of_function(public, None)
        elif dataclasses.is_dataclass(public) and hasattr(public, "__post_init__"):
            fields = {field.name: field.type for field in dataclasses.fields(public)}
            yield Subject(public, None, fields, frozenset(required_fields(public)))
        for name, member in vars(public).items():
            if isinstance(member, classmethod | staticmethod) and not name.startswith("_"):
                yield of_function(getattr(public, name), None)
            elif inspect.isfunction(member) and not name.startswith("_"):
                yield of_function(member, public)


def required_fields(public: Any) -> Iterator[str]:
    """Any: a class of values."""
    for field in dataclasses.fields(public):
        if field.default is field.default_factory is dataclasses.MISSING:
            yield field.name


def of_function(function: Callable[..., object], cls: type | None) -> Subject:
    annotations: dict[str, Any] = {}
    required: set[str] = set()
    listed = None
    for name, parameter in inspect.signature(function).parameters.items():
        if name == "self" or parameter.annotation is bool:  # any value is a truth value
            continue
        if parameter.kind is parameter.VAR_KEYWORD:
            # The keys of a filter, or free ones.
            unpacked = get_origin(parameter.annotation) is Unpack
            keys = get_args(parameter.annotation)[0].__annotations__ if unpacked else {}
            annotations |= keys
            if parameter.annotation is not Any:  # those are another function's parameters
                annotations["no_such_key"] = object
            continue
        if parameter.kind is parameter.VAR_POSITIONAL:
            listed = name
        elif parameter.default is parameter.empty:
            required.add(name)
        annotations[name] = parameter.annotation
    return Subject(function, cls, annotations, frozenset(required), listed)


SUBJECTS = {
    subject.function.__qualname__: subject
    for subject in subjects()
    if subject.parameters and subject.function not in UNCHECKED
}
UNSECURED_NAMES = [name for name, subject in SUBJECTS.items() if subject.cls not in SECURED]


@pytest.fixture(scope="module")
def plain() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(brokers=2, topics={"orders": 2}) as kafka:
        yield kafka
        kafka.existing_topic("orders").send("it still works")


@pytest.fixture(scope="module")
def secured() -> Iterator[EmbeddedKafka]:
    security = Security(protocol="SASL_PLAINTEXT", users={"alice": "secret"}, acls=[])
    with EmbeddedKafka(security=security) as kafka:
        yield kafka


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory, two levels deep: nothing may be left in it or above it."""
    directory = tmp_path / "a" / "b"
    directory.mkdir(parents=True)
    monkeypatch.chdir(directory)
    monkeypatch.setattr("webbrowser.open", lambda url: True)
    return directory


@pytest.mark.parametrize("name", SUBJECTS)
def test_one_argument_is_wrong(name: str, request: pytest.FixtureRequest, here: Path) -> None:
    subject = SUBJECTS[name]
    kafka = request.getfixturevalue("secured" if subject.cls in SECURED else "plain")
    before = lasting_threads()
    found = [
        f"{name}({parameter}={label}): {said}"
        for parameter in subject.parameters
        for label, wrong in WRONG.items()
        if (said := find_fault(kafka, subject, {**subject.good(), parameter: wrong}))
    ]
    assert found == []
    left = {path.name for path in (*here.iterdir(), *here.parent.parent.iterdir())} - {"a"}
    assert left <= ({"no-such-thing", "x"} if subject.function is EmbeddedKafka else set())
    assert lasting_threads() == before


@given(data=st.data())
def test_several_arguments_are_wrong(data: st.DataObject, plain: EmbeddedKafka) -> None:
    name = data.draw(st.sampled_from(UNSECURED_NAMES))
    subject = SUBJECTS[name]
    numbers = st.integers(max_value=-1) | st.integers(min_value=2**31)  # others may be waited for
    values = st.sampled_from(sorted(WRONG)).map(WRONG.__getitem__) | st.text() | numbers
    names = st.sampled_from(sorted(subject.parameters))
    wrong = data.draw(st.dictionaries(names, values, min_size=1))
    assert find_fault(plain, subject, {**subject.good(), **wrong}) is None


def test_an_object_is_known_for_each_class_with_methods() -> None:
    needed = {subject.cls for subject in SUBJECTS.values() if subject.cls is not None}
    assert needed - OBJECTS.keys() == set(), "say in OBJECTS how to come by one"


def lasting_threads() -> list[str]:
    """Those of clusters and pages; others come and go."""
    names = sorted(each.name for each in threading.enumerate())
    return [name for name in names if name.endswith("-processor-0") or name.startswith("ek-page")]


def find_fault(kafka: EmbeddedKafka, subject: Subject, arguments: dict[str, Any]) -> str | None:
    """Calls the function, and undoes what it has done. Returns what is wrong with its answer."""
    try:
        undo(kafka, arguments, subject.call(kafka, **arguments))
        kafka.check()
    except BackgroundFailure as failure:
        return str(failure)[-2000:]
    except (InvalidArgument, ConfigError) as error:
        str(error)  # has done nothing
    except EmbedKafkaError:
        undo(kafka, arguments, None)
    except Exception as error:
        return f"{error!r:.300}"
    return None


def undo(kafka: EmbeddedKafka, arguments: Mapping[str, Any], result: object) -> None:
    if isinstance(result, EmbeddedKafka) and "zookeeper" not in arguments:  # it would be waited for
        with result:
            pass
    elif isinstance(result, PageServer):
        result.close()
    elif inspect.isgenerator(result):
        with suppress(StopIteration):
            next(result)
    kafka.faults.clear()
    kafka.brokers.heal()
    if not kafka._reach.has_topic("orders"):
        kafka.topic("orders", partitions=2)
