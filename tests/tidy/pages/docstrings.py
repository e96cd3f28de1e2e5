"""What the product's source says of a public name: its signature, its docstring, its members.

It reads the source and imports nothing, so names are found where their module says it took them
from: `embedkafka.Topic` in `embedkafka/cluster/clients/topic.py`.
"""

import ast
import inspect
import re
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from tests.tidy.sources import ROOT

SECTION: Final = re.compile(r"^(Args|Raises|Returns):\n((?:    .*\n|\n)+)", re.MULTILINE)
_ITEM: Final = re.compile(r"^    (\*{0,2}[\w.]+): ", re.MULTILINE)
_WIDTH: Final = 88
_CAN_BE_SHOWN: Final = (int, float, str)
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, kw_only=True)
class Member:
    """A method, a property or a field of a class, or a function."""

    name: str
    signature: str
    text: str
    is_value: bool = False
    """A property or a field: it is read, not called."""


@dataclass(frozen=True, kw_only=True)
class Definition:
    """A class or a function, with its own docstring."""

    name: str
    signature: str
    text: str
    is_class: bool
    members: Sequence[Member] = ()


def define(path: str) -> Definition:
    """The definition of a public name such as `embedkafka.Topic`."""
    module, _, name = path.rpartition(".")
    source, node = _find(module, name)
    if isinstance(node, ast.ClassDef):
        return _class(source, node)
    member = _member(source, node)
    return Definition(name=name, signature=member.signature, text=member.text, is_class=False)


def arguments(docstring: str) -> dict[str, str]:
    """What a docstring says of each argument."""
    sections = dict(SECTION.findall(docstring + "\n"))
    return items(sections.get("Args", ""))


def items(body: str) -> dict[str, str]:
    """The names in a section of a docstring, with what it says of them."""
    _, *parts = _ITEM.split(body)
    return {
        name: " ".join(text.split()) for name, text in zip(parts[::2], parts[1::2], strict=True)
    }


def _class(source: str, node: ast.ClassDef) -> Definition:
    members: dict[str, Member] = {}
    signature = ""
    for home, each in _lineage(source, node):
        for name, member in _own_members(home, each):
            if name == "__init__":
                signature = signature or member.signature.replace("__init__", node.name, 1)
            else:
                members.setdefault(name, member)
    text = inspect.cleandoc(ast.get_docstring(node) or "")
    return Definition(
        name=node.name,
        signature=signature,
        text=text,
        is_class=True,
        members=list(members.values()),
    )


def _lineage(source: str, node: ast.ClassDef) -> Iterator[tuple[str, ast.ClassDef]]:
    """The class and the bases of it that are ours, each with its module."""
    yield source, node
    for base in node.bases:
        found = _find_if_ours(source, ast.unparse(base).partition("[")[0])
        if found is not None and isinstance(found[1], ast.ClassDef):
            yield from _lineage(found[0], found[1])


def _own_members(source: str, node: ast.ClassDef) -> Iterator[tuple[str, Member]]:
    for at, each in enumerate(node.body):
        if isinstance(each, Function) and (each.name == "__init__" or _is_public(each.name)):
            if not any("setter" in ast.unparse(one) for one in each.decorator_list):
                yield each.name, _member(source, each)
        elif isinstance(each, ast.AnnAssign) and _is_field(each):
            yield ast.unparse(each.target), _field(each, node.body[at + 1 : at + 2])


def _is_public(name: str) -> bool:
    return not name.startswith("_")


def _is_field(node: ast.AnnAssign) -> bool:
    return _is_public(ast.unparse(node.target)) and "ClassVar" not in ast.unparse(node.annotation)


def _field(node: ast.AnnAssign, following: Sequence[ast.stmt]) -> Member:
    text = ""
    match following:
        case [ast.Expr(value=ast.Constant(value=str(said)))]:
            text = inspect.cleandoc(said)
    name = ast.unparse(node.target)
    return Member(name=name, signature=_type(node.annotation), text=text, is_value=True)


def _member(source: str, node: Function) -> Member:
    text = inspect.cleandoc(ast.get_docstring(node) or "")
    if any("property" in ast.unparse(one) for one in node.decorator_list):
        return Member(name=node.name, signature=_type(node.returns), text=text, is_value=True)
    returns = f" -> {_type(node.returns)}" if node.returns and node.name != "__init__" else ""
    return Member(name=node.name, signature=_call(source, node) + returns, text=text)


def _call(source: str, node: Function) -> str:
    """The name with its parameters, one to a line where they do not fit on one."""
    parameters = list(_parameters(source, node.args))
    flat = f"{node.name}({', '.join(parameters)})"
    if len(flat) <= _WIDTH:
        return flat
    return f"{node.name}(\n" + "".join(f"    {each},\n" for each in parameters) + ")"


def _parameters(source: str, given: ast.arguments) -> Iterator[str]:
    positional = [*given.posonlyargs, *given.args]
    required = len(positional) - len(given.defaults)
    for at, argument in enumerate(positional):
        if argument.arg not in ("self", "cls"):
            default = given.defaults[at - required] if at >= required else None
            yield _parameter(source, argument, default)
    if given.vararg:
        yield "*" + _parameter(source, given.vararg, None)
    elif given.kwonlyargs:
        yield "*"
    for argument, default in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        yield _parameter(source, argument, default)
    if given.kwarg:
        yield "**" + _parameter(source, given.kwarg, None)


def _parameter(source: str, argument: ast.arg, default: ast.expr | None) -> str:
    typed = f"{argument.arg}: {_type(argument.annotation)}" if argument.annotation else argument.arg
    return typed if default is None else f"{typed} = {_value(source, default)}"


def _type(annotation: ast.expr | None) -> str:
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return annotation.value
    return ast.unparse(annotation) if annotation else ""


def _value(source: str, default: ast.expr) -> str:
    """The default as it is spelled, or the value of a constant that it names."""
    if isinstance(default, ast.Name):
        found = _constant(source, default.id)
        if isinstance(found, _CAN_BE_SHOWN):
            return repr(found)
    return ast.unparse(default)


def _constant(source: str, name: str) -> object:
    for node in _tree(source).body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=found)], value=ast.Constant(value=value))
                | ast.AnnAssign(target=ast.Name(id=found), value=ast.Constant(value=value))
            ) if found == name:
                return value
            case ast.ImportFrom(module=str(module)) if _imports(node, name):
                return _constant(module, name) if module.startswith("embedkafka") else None
    return None


def _find(module: str, name: str) -> tuple[str, ast.ClassDef | Function]:
    found = _find_if_ours(module, name)
    if found is None:
        raise LookupError(f"{module} has no {name}")
    return found


def _find_if_ours(module: str, name: str) -> tuple[str, ast.ClassDef | Function] | None:
    """Where a module has a name from, through all that only pass it on."""
    if not module.startswith("embedkafka"):
        return None
    tree = _tree(module)
    for node in tree.body:
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef() if node.name == name:
                return module, node
            case ast.Assign(targets=[ast.Name(id=found)], value=ast.Name(id=other)) if (
                found == name
            ):
                home, meant = _find(module, other)
                meant = copy(meant)
                meant.name = name
                return home, meant
    for each in ast.walk(tree):
        if isinstance(each, ast.ImportFrom) and each.module and _imports(each, name):
            return _find_if_ours(each.module, name)
    return None


def _imports(node: ast.ImportFrom, name: str) -> bool:
    return any((alias.asname or alias.name) == name for alias in node.names)


@cache
def _tree(module: str) -> ast.Module:
    path = ROOT / module.replace(".", "/")
    file = path / "__init__.py" if path.is_dir() else Path(f"{path}.py")
    return ast.parse(file.read_text())
