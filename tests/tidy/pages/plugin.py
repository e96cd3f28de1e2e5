"""docs/reference/pytest.md: fixtures, options and ini keys, from the plugin's own declarations."""

import ast
import inspect
from collections.abc import Iterator
from typing import Any

from embedkafka import (
    BrokerHandle,
    BrokerHandles,
    EmbeddedKafka,
    GroupHandle,
    OwnedBroker,
    OwnedBrokers,
    OwnedGroup,
    OwnedTopic,
    Topic,
)
from pytest_embedkafka import fixtures
from pytest_embedkafka.options import add_options
from pytest_embedkafka.run_cluster import RunCluster
from pytest_embedkafka.worker_cluster import WorkerCluster
from tests.tidy.pages import environment
from tests.tidy.pages.tables import table

HEAD = """# The pytest plugin

`make docs` writes this page from the plugin's declarations. The tests check that it is current.

`pip install 'embedkafka[pytest]'` is enough: pytest finds the plugin by itself. It imports nothing
of embedkafka until a test uses one of its fixtures. It needs pytest 7.4 or newer. On an older
pytest it says so in one line, and tests that do not use it run as before.

## Fixtures

"""

FIXTURES_FOOT = """
- A test that uses one of the Kafka fixtures fails if a thread of the cluster failed while it ran.
- After each test, `kafka` is as it was before: topics, groups, transactions, settings, faults,
  brokers, network and clock. What a fixture of a class, module or session did stays. See
  [isolation](../how-to/isolation.md).
- A query that the test body leaves running is stopped, and the test fails with its name;
  `--spark-leftovers` changes that. Queries of a fixture stay until the fixture stops them.
- A test that fails shows the cluster, its queries and the end of Spark's log below its own output;
  see [reading failure reports](../how-to/reports.md).
"""

OPTIONS_HEAD = """
## Options

Each option is also an ini key of the same meaning, for `pyproject.toml`, `pytest.ini` or `tox.ini`.
The command line wins.

"""

OPTIONS_FOOT = """
In `pyproject.toml`:

```toml
[tool.pytest.ini_options]
kafka_brokers = "1"
kafka_config = ["auto.create.topics.enable=false", "min.insync.replicas=1"]
spark_config = ["spark.sql.shuffle.partitions=1"]
```
"""


WHERE_HEAD = """
## What runs where

With `--kafka-xdist=shared`, the workers of pytest-xdist share a cluster, and each is one of its
many users. An external cluster is one that `--kafka-bootstrap` or `--kafka-client-config` names. A
test that uses what the cluster does not offer is skipped, and the summary counts such tests.
What the table does not list of topics, groups and brokers works on all of them.

"""


def render() -> str:
    declared = _Declarations()
    add_options(declared)  # type: ignore[arg-type]  # stands in for pytest's parser
    return "".join(
        (
            HEAD,
            table(["fixture", "scope", "what it is"], _fixtures()),
            FIXTURES_FOOT,
            environment.marks(),
            OPTIONS_HEAD,
            table(["option", "ini key", "default", "meaning"], declared.rows()),
            OPTIONS_FOOT,
            environment.variables(),
            WHERE_HEAD,
            table(["", "embedded", "shared by workers", "external"], _where()),
        )
    )


def _where() -> Iterator[tuple[str, ...]]:
    """The methods of `kafka`, those that every cluster has first, then the other fixtures."""
    rows = [(name, *_who_has(name, WorkerCluster, RunCluster)) for name in _public(EmbeddedKafka)]
    for name, workers, others in sorted(rows, key=lambda row: row[1:], reverse=True):
        yield f"`kafka.{name}`", "yes", _yes(workers), _yes(others)
    for noun, owned, shared, plain in HANDLES:
        for name in _public(owned):
            workers, others = _who_has(name, shared, plain)
            if not others:
                yield f"`{noun}.{name}`", "yes", _yes(workers), _yes(others)
    for name in ("topic", "group", "producer", "consumer", "admin"):
        yield f"`kafka_{name}`", "yes", "yes", "yes"
    for name in ("clock", "faults"):
        yield f"`kafka_{name}`", "yes", _yes(False), _yes(False)
    all_the_same = "yes: it starts embedded clusters all the same"
    yield "`kafka_cluster`", "yes", all_the_same, all_the_same
    yield "`spark`", "yes", "yes", "yes"


HANDLES = (
    ("topic", OwnedTopic, OwnedTopic, Topic),
    ("group", OwnedGroup, OwnedGroup, GroupHandle),
    ("kafka.brokers", OwnedBrokers, BrokerHandles, BrokerHandles),
    ("kafka.broker(1)", OwnedBroker, BrokerHandle, BrokerHandle),
)
"""How a test names a handle, and its classes in the columns of the table."""


def is_ours(cls: type) -> bool:
    return cls.__module__.partition(".")[0] == "embedkafka"


def _public(cls: type) -> list[str]:
    """The names of a class and those it inherits, in the order of their definition."""
    names = [name for each in cls.__mro__ if is_ours(each) for name in vars(each)]
    return [name for name in dict.fromkeys(names) if not name.startswith("_")]


def _who_has(name: str, shared: type, plain: type) -> tuple[bool, bool]:
    """Whether the handles on a shared and on an external cluster have it."""
    return hasattr(shared, name), hasattr(plain, name)


def _yes(is_there: bool) -> str:
    return "yes" if is_there else "the test is skipped"


def _fixtures() -> Iterator[tuple[str, ...]]:
    for node in ast.parse(inspect.getsource(fixtures)).body:
        if not isinstance(node, ast.FunctionDef):
            continue
        for decorator in map(ast.unparse, node.decorator_list):
            if decorator.startswith("pytest.fixture") and not node.name.startswith("_"):
                scope = "session" if "session" in decorator else "function"
                yield f"`{node.name}`", scope, _one_line(ast.get_docstring(node) or "")


class _Declarations:
    """Collects the plugin's declarations: stands in for pytest's parser and its one group."""

    def __init__(self) -> None:
        self._options: dict[str, tuple[str, str]] = {}
        self._ini: dict[str, object] = {}

    def getgroup(self, name: str, description: str) -> "_Declarations":
        return self

    def addoption(self, name: str, **how: Any) -> None:  # Any: argparse's keywords
        is_flag = how.get("action") == "store_true"
        value = how.get("metavar") or ("{" + ",".join(how.get("choices", ())) + "}")
        shown = name if is_flag else f"{name} {value}"
        self._options[name.removeprefix("--").replace("-", "_")] = shown, how["help"]

    def addini(self, name: str, help: str, *, default: object = "", type: str = "") -> None:
        self._ini[name] = default

    def rows(self) -> Iterator[tuple[str, ...]]:
        assert self._options.keys() == self._ini.keys(), (
            "an option lacks its ini key, or the reverse"
        )
        for key, (shown, meaning) in self._options.items():
            default = self._ini[key]
            yield f"`{shown}`", f"`{key}`", f"`{default}`" if default else "none", meaning


def _one_line(text: str) -> str:
    return " ".join(text.split())
