"""Tests that need what the clusters of the run do not offer: skipped, and counted."""

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import pytest

_REASON = "needs an embedded cluster"
_SKIPPED = re.compile(rf"`(?P<name>[\w.]+)` ({_REASON}|needs a Spark driver of this process)")


def skip_external(name: str, bootstrap_servers: str, *, is_shared: bool = False) -> NoReturn:
    """Skips the running test, because it uses `name`, which only an owner has."""
    __tracebackhide__ = True  # the report names the test's own line
    uses = bootstrap_servers
    if is_shared:
        uses = "one for all workers, where it would concern the tests of others; use "
        uses += "`kafka_cluster`, or --kafka-xdist=own"
    pytest.skip(f"`{name}` {_REASON}; this run uses {uses}")


def skip_for_listeners(name: str) -> NoReturn:
    """Skips the running test: the workers that share a cluster have no listeners of their own."""
    __tracebackhide__ = True
    pytest.skip(
        f"`kafka.{name}` {_REASON}; this run uses one for all workers, whose requests cannot be "
        "told apart, because the settings of the run name the listeners; use `kafka_cluster`, or "
        "--kafka-xdist=own"
    )


@contextmanager
def skipping_on_connect() -> Iterator[None]:
    """Skips the test if it calls what Spark Connect cannot do."""
    __tracebackhide__ = True
    try:
        yield
    except Exception as error:
        execution = sys.modules.get("embedkafka.spark.execution")
        if execution is None or not isinstance(error, execution.NotOnSparkConnect):
            raise
        # The report names the line of the test, which is in the traceback.
        raise pytest.skip.Exception(str(error)).with_traceback(error.__traceback__) from error


def summary_line(skipped: Iterable[Any]) -> str | None:
    """How many tests were skipped, and what they used. Any: pytest's reports, also from workers."""
    reasons = (str(report.longrepr) for report in skipped)
    names = Counter(found["name"] for reason in reasons if (found := _SKIPPED.search(reason)))
    if not names:
        return None
    used = ", ".join(f"{name} ({count})" for name, count in names.most_common())
    total = names.total()
    were = "1 test was" if total == 1 else f"{total} tests were"
    return f"embedkafka: {were} skipped, because the clusters of this run do not offer {used}"
