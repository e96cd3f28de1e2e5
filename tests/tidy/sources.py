"""The product's source as data: its modules, and the external names that each of them uses.

`references` resolves names through a module's imports, so it recognizes `import time as t`, `from
time import sleep as pause` and `import_module("time")`. It follows imports, not values: it cannot
see a module that arrives as an argument.
"""

import ast
import builtins
import copy
import tomllib
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "embedkafka"
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])


class Module(NamedTuple):
    """One file of the product."""

    path: Path

    @property
    def name(self) -> str:
        """The path below `embedkafka/`, with slashes."""
        return self.path.relative_to(PACKAGE).as_posix()

    @property
    def package(self) -> str:
        """Its package in the code map; a top-level module counts as one."""
        return self.name.partition("/")[0].removesuffix(".py")

    @property
    def tree(self) -> ast.Module:
        return _parsed(self.path)


class Reference(NamedTuple):
    """A name of another module, fully qualified, and the line that uses it."""

    name: str
    line: int


MODULES = [Module(path) for path in sorted(PACKAGE.rglob("*.py"))]
PACKAGES = sorted({module.package for module in MODULES} - {"__init__"})


@cache
def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


@cache
def settings() -> dict[str, Any]:
    """The parsed pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


@cache
def references(tree: ast.AST) -> list[Reference]:
    """Every use of an imported or built-in name."""
    reader = _Reader(_imported_names(tree))
    reader.visit(tree)
    return reader.found


def without_annotations(tree: ast.Module) -> ast.Module:
    """The module without annotations, which have no effect at run time."""
    stripped: ast.Module = _Unannotated().visit(copy.deepcopy(tree))
    return stripped


def matches(name: str, rule: str) -> bool:
    """Whether the rule names `name` or a parent of it: `time` matches `time.sleep`."""
    return name == rule or name.startswith(rule + ".")


def _imported_names(tree: ast.AST) -> dict[str, str]:
    """Maps each local name to what it imports, wherever in the module that happens."""
    names = {name: name for name in dir(builtins)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                first = alias.name.partition(".")[0]
                names[alias.asname or first] = alias.name if alias.asname else first
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return names


class _Unannotated(ast.NodeTransformer):
    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        node.returns = None
        self.generic_visit(node)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        return node.value and ast.Expr(value=self.visit(node.value))


class _Reader(ast.NodeVisitor):
    def __init__(self, names: dict[str, str]) -> None:
        self.found: list[Reference] = []
        self._names = names

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            name = f"{node.module}.{alias.name}".removeprefix("builtins.")
            self.found.append(Reference(name, node.lineno))

    def visit_Name(self, node: ast.Name) -> None:
        if node.id in self._names:
            self.found.append(Reference(self._names[node.id], node.lineno))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        attributes: list[str] = []
        inner: ast.expr = node
        while isinstance(inner, ast.Attribute):
            attributes.insert(0, inner.attr)
            inner = inner.value
        if isinstance(inner, ast.Name) and inner.id in self._names:
            name = ".".join([self._names[inner.id], *attributes])
            self.found.append(Reference(name.removeprefix("builtins."), node.lineno))
        else:
            self.visit(inner)

    def visit_Call(self, node: ast.Call) -> None:
        self.generic_visit(node)
        callee = self._names.get(node.func.id) if isinstance(node.func, ast.Name) else None
        if isinstance(node.func, ast.Attribute) and node.func.attr == "import_module":
            callee = "importlib.import_module"
        if callee in ("importlib.import_module", "__import__"):
            self.found += [
                Reference(argument.value, node.lineno)
                for argument in node.args[:1]
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
            ]
