"""Every lock has a rank, so that test runs refuse an order that could deadlock.

`runtime/locks.py` asserts at run time that ranks rise, but only for the locks it creates.
"""

import ast
import re

import pytest

from tests.tidy.sources import MODULES, ROOT, Reference, matches, references, without_annotations

UNRANKED = (
    "threading.Lock",
    "threading.RLock",
    "threading.Condition",
    "threading.Semaphore",
    "threading.BoundedSemaphore",
    "threading.Barrier",
    "_thread",
    "queue",
)

ALLOWED = {
    "runtime/purgatory/operation.py": "a flag: the thread that completes it takes it for good",
    "spark/scripts/inside.py": "none: it finds threads of a script that wait in one",
}
"""Modules outside `runtime/` that may name a lock without a rank, and why."""


def unranked_locks(tree: ast.Module) -> list[Reference]:
    return _named_locks(tree) and _named_locks(without_annotations(tree))


def _named_locks(tree: ast.Module) -> list[Reference]:
    return [
        reference
        for reference in references(tree)
        if any(matches(reference.name, rule) for rule in UNRANKED)
    ]


def test_every_lock_outside_the_runtime_has_a_rank() -> None:
    found = {
        module.name: unranked_locks(module.tree)
        for module in MODULES
        if module.package != "runtime" and module.name not in ALLOWED
    }
    assert {name: locks for name, locks in found.items() if locks} == {}


def test_the_exceptions_are_needed() -> None:
    trees = {module.name: module.tree for module in MODULES}
    assert [name for name in ALLOWED if not unranked_locks(trees[name])] == []


@pytest.mark.parametrize(
    "planted",
    [
        "import threading\nclass A:\n    def __init__(self): self._lock = threading.Lock()",
        "from threading import RLock as Guard\nlock = Guard()",
        "import threading\nlock: object = threading.Condition()",
        "import threading as t\nmake = t.Semaphore",
        "from queue import Queue",
    ],
)
def test_an_unranked_lock_is_refused(planted: str) -> None:
    assert unranked_locks(ast.parse(planted))


def test_a_lock_in_an_annotation_is_none() -> None:
    honest = (
        "import threading\ndef f(c: threading.Condition) -> threading.Lock: ...\nx: threading.Lock"
    )
    assert unranked_locks(ast.parse(honest)) == []


def test_the_architecture_lists_every_rank() -> None:
    ranks = {
        statement.value.value
        for module in MODULES
        for statement in module.tree.body
        if isinstance(statement, ast.Assign | ast.AnnAssign)
        for target in (
            statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        )
        if isinstance(target, ast.Name) and target.id.endswith("_RANK")
        if isinstance(statement.value, ast.Constant) and isinstance(statement.value.value, int)
    }
    table = re.findall(r"^\| (\d+) \|", (ROOT / "ARCHITECTURE.md").read_text(), re.MULTILINE)
    assert [int(rank) for rank in table] == sorted(ranks)
