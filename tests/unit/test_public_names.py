"""The public names of `embedkafka`: complete, documented, and quick to import."""

import ast
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any, get_args, get_type_hints

import pytest

import embedkafka
import embedkafka.explore
import embedkafka.spark

CLASSES = [getattr(embedkafka, name) for name in embedkafka.__all__]
#: Types in annotations whose modules are not imported for that.
ELSEWHERE = {
    **{name: getattr(embedkafka, name) for name in embedkafka.__all__},
    "Sequence": Sequence,
    **dict.fromkeys(("DataFrame", "From", "SparkSession", "StructType", "datetime"), object),
}
#: Classes that tests instantiate themselves; all others come from a method.
MADE_BY_USERS = {embedkafka.EmbeddedKafka, embedkafka.ClusterConfig, embedkafka.TopicSpec}


@pytest.mark.parametrize("package", [embedkafka, embedkafka.explore, embedkafka.spark])
def test_type_checkers_find_each_name_where_it_is_imported_from(package: Any) -> None:
    source = ast.parse(inspect.getsource(package))
    checked = {
        f"{name.asname} in {imported.module}"
        for block in source.body
        if isinstance(block, ast.If)
        for imported in block.body
        if isinstance(imported, ast.ImportFrom)
        for name in imported.names
    }
    homes = package._HOMES.items()
    assert checked == {f"{name} in {package.__name__}.{home}" for name, home in homes}


def test_every_public_name_can_be_had() -> None:
    for name in embedkafka.__all__:
        assert getattr(embedkafka, name).__name__ == name


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Zookeeper'"):
        _ = embedkafka.Zookeeper


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = (
        "import embedkafka, sys; print(*(m for m in sys.modules if m.startswith('embedkafka.')));"
        "from embedkafka import EmbeddedKafka;"
        "print(*({'pyspark', 'confluent_kafka', 'kazoo', 'crc32c', 'lz4', 'zstandard'}"
        " & set(sys.modules)))"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert loaded.stdout.split() == []


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_type_that_a_public_class_mentions_is_public(cls: type) -> None:
    hints = [get_type_hints(cls, localns=ELSEWHERE)]
    hints += [get_type_hints(function, localns=ELSEWHERE) for _, function in public_functions(cls)]
    mentioned = {
        type_
        for hint in hints
        for name, value in hint.items()
        if name != "self" and not name.startswith("_")
        for type_ in types_in(value)
    }
    assert {type_ for type_ in mentioned if is_ours(type_)} <= set(CLASSES)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_public_class_and_method_is_documented(cls: type) -> None:
    assert cls.__doc__
    assert [name for name, function in public_functions(cls) if not function.__doc__] == []


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_argument_is_documented(cls: Any) -> None:
    for name, function in public_functions(cls):
        said = words(function.__doc__)
        assert {p for p in parameters(function) if p not in said} == set(), name
    if cls in MADE_BY_USERS and cls.__init__ is not object.__init__:
        assert set(parameters(cls.__init__)) <= words(cls.__doc__)


def public_functions(cls: type) -> Iterator[tuple[str, Any]]:
    """Methods and properties as functions, without those inherited from Python's classes."""
    for name, value in vars(cls).items():
        if name.startswith("_"):
            continue
        if isinstance(value, property):
            yield name, value.fget
        elif inspect.isfunction(value):
            yield name, value


def parameters(function: Any) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name != "self"]


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text))


def types_in(hint: Any) -> Iterator[Any]:
    if isinstance(hint, type):
        yield hint
    for argument in get_args(hint):
        yield from types_in(argument)


def is_ours(type_: type) -> bool:
    return type_.__module__.partition(".")[0] == "embedkafka"
