"""One name, one thing: no class and no constant of the product is defined twice."""

import ast
from collections import defaultdict

from tests.tidy.sources import MODULES


def test_no_two_classes_share_a_name() -> None:
    homes = defaultdict(set)
    for module in MODULES:
        for statement in module.tree.body:
            if isinstance(statement, ast.ClassDef) and not statement.name.startswith("_"):
                homes[statement.name].add(module.name)
    shared = {name: sorted(modules) for name, modules in homes.items() if len(modules) > 1}
    assert shared == {}


def test_no_constant_is_defined_twice() -> None:
    homes = defaultdict(set)
    for module in MODULES:
        for name, value in _constants(module.tree):
            homes[name, value].add(module.name)
    shared = {name: sorted(modules) for (name, _), modules in homes.items() if len(modules) > 1}
    assert shared == {}


def _constants(tree: ast.Module) -> list[tuple[str, str]]:
    """The public constants of a module, each with its value as spelled in the source."""
    found = []
    for statement in tree.body:
        if isinstance(statement, ast.Assign):
            targets, value = statement.targets, statement.value
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            targets, value = [statement.target], statement.value
        else:
            continue
        found += [
            (target.id, ast.unparse(value))
            for target in targets
            if isinstance(target, ast.Name) and target.id.isupper() and len(target.id) > 1
            if not target.id.startswith("_")
        ]
    return found
