"""Tests that need an embedded cluster, in a run on an external one: skipped, and counted."""

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any, NoReturn

import pytest

_REASON = "needs an embedded cluster"
_SKIPPED = re.compile(rf"`kafka\.(?P<name>\w+)` {_REASON}")


def skip_external(name: str, bootstrap_servers: str) -> NoReturn:
    """Skips the running test, because it uses `name` of `EmbeddedKafka`."""
    __tracebackhide__ = True  # the report names the test's own line
    pytest.skip(f"`kafka.{name}` {_REASON}; this run uses {bootstrap_servers}")


def summary_line(skipped: Iterable[Any]) -> str | None:
    """How many tests were skipped, and what they used. Any: pytest's reports, also from workers."""
    reasons = (str(report.longrepr) for report in skipped)
    names = Counter(found["name"] for reason in reasons if (found := _SKIPPED.search(reason)))
    if not names:
        return None
    used = ", ".join(f"kafka.{name} ({count})" for name, count in names.most_common())
    total = names.total()
    were = "1 test was" if total == 1 else f"{total} tests were"
    return f"embedkafka: {were} skipped, because the cluster is external: {used}"
