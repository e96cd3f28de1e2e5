"""Finds the decisions in a source text and says how each could be wrong.

A mutation replaces one operator or constant in place, so that every line keeps its number.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from tests.presence import present

#: How an operator is spelled, then what may stand in its place: its opposite and its neighbour.
OPERATORS: Final[Mapping[type[ast.AST], tuple[str, ...]]] = {
    ast.Lt: ("<", "<=", ">="),
    ast.LtE: ("<=", "<", ">"),
    ast.Gt: (">", ">=", "<="),
    ast.GtE: (">=", ">", "<"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
    ast.And: ("and", "or"),
    ast.Or: ("or", "and"),
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
}


class Place(NamedTuple):
    """A part of the source text, from byte `start` to `end`, and what may replace it."""

    start: int
    end: int
    replacements: tuple[str, ...]


class Mutant(NamedTuple):
    """`mutated` is the whole source; `before` and `after` are its line at `line`."""

    path: Path
    line: int
    before: str
    after: str
    mutated: bytes

    @property
    def key(self) -> str:
        """Names the mutant without its line number, which other changes move."""
        return f"{self.path.as_posix()}: {self.before} -> {self.after}"

    def __str__(self) -> str:
        return f"{self.path.as_posix()}:{self.line}: {self.before} -> {self.after}"


def choose(root: Path, paths: list[Path], *, count: int, seed: int) -> list[Mutant]:
    """Draws places from all the files of `paths` under `root`, and a replacement for each."""
    rng = Random(seed)
    sources = {path: (root / path).read_bytes() for path in sorted(paths)}
    places = [(path, place) for path, source in sources.items() for place in find_places(source)]
    return [
        mutate(path, sources[path], place, rng.choice(place.replacements))
        for path, place in rng.sample(places, min(count, len(places)))
    ]


def mutate(path: Path, source: bytes, place: Place, replacement: str) -> Mutant:
    mutated = source[: place.start] + replacement.encode() + source[place.end :]
    line = source.count(b"\n", 0, place.start)
    before, after = (text.decode().split("\n")[line].strip() for text in (source, mutated))
    return Mutant(path, line + 1, before, after, mutated)


def find_places(source: bytes) -> list[Place]:
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def place_between(begin: ast.expr, op: ast.AST, end: ast.expr) -> Place:
        """Finds the operator between two operands; brackets and line ends may surround it."""
        word, *others = OPERATORS[type(op)]
        first = starts[present(begin.end_lineno) - 1] + present(begin.end_col_offset)
        last = starts[end.lineno - 1] + end.col_offset
        pattern = re.escape(word).replace(r"\ ", r"\s+").encode()
        found = re.search(pattern, source[first:last])
        assert found, source[first:last]
        return Place(first + found.start(), first + found.end(), tuple(others))

    def places_of(node: ast.AST) -> Iterator[Place]:
        match node:
            case ast.Compare(left=left, ops=ops, comparators=comparators):
                for begin, op, end in zip([left, *comparators], ops, comparators, strict=False):
                    yield place_between(begin, op, end)
            case ast.BoolOp(op=op, values=values):
                for begin, end in pairwise(values):
                    yield place_between(begin, op, end)
            case ast.UnaryOp(op=ast.Not()):
                start = starts[node.lineno - 1] + node.col_offset
                yield Place(start, start + len("not "), ("",))
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as op, right=right):
                if isinstance(right, ast.Constant) and right.value == 1:
                    yield place_between(left, op, right)
            case ast.Return(value=ast.Constant(value=bool(value)) as constant):
                start = starts[constant.lineno - 1] + constant.col_offset
                yield Place(start, start + len(str(value)), (str(not value),))

    return [place for node in _decisions(ast.parse(source)) for place in places_of(node)]


def _decisions(node: ast.AST) -> Iterator[ast.AST]:
    """Walks the tree except for the parts that decide nothing."""
    match node:
        case ast.Assert() | ast.JoinedStr():  # Python 3.11 does not know positions in an f-string
            return
        case ast.If(test=ast.Name(id="TYPE_CHECKING")) | ast.FunctionDef(name="__repr__"):
            return
        case ast.Call(func=ast.Attribute(value=ast.Name(id="_LOG"))):
            return
    yield node
    for field, value in ast.iter_fields(node):
        if field not in ("annotation", "returns"):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from _decisions(child)
