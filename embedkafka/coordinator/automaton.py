"""Matches whole strings in linear time, for every expression.

Python's `re` backtracks, and takes exponential time for `(a+)+b`: a client could block the
coordinator, and the whole process with it. This follows all paths at once (Thompson's
construction), and caches the result as a table of states by character.

Owner: any thread may match. Two threads that extend the table at once do the same work twice.
Invariants: a program's offsets are relative, so programs can be joined and repeated. The table is
dropped when it reaches `_MAX_TABLE` entries.
Not here: the syntax of expressions (`re2.py`).
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum, auto
from typing import Final

from embedkafka.runtime.values import NamedTuple

Ranges = Sequence[tuple[int, int]]

_MAX_TABLE: Final = 200_000


class Edge(Enum):
    """The character before or after a position."""

    OUTSIDE = auto()
    NEWLINE = auto()
    WORD = auto()
    OTHER = auto()


class Place(Enum):
    """A condition on a position; it consumes no character."""

    TEXT_START = auto()
    TEXT_END = auto()
    LINE_START = auto()
    LINE_END = auto()
    WORD_BOUNDARY = auto()
    NO_WORD_BOUNDARY = auto()

    def holds(self, before: Edge, after: Edge) -> bool:
        match self:
            case Place.TEXT_START:
                return before is Edge.OUTSIDE
            case Place.TEXT_END:
                return after is Edge.OUTSIDE
            case Place.LINE_START:
                return before in (Edge.OUTSIDE, Edge.NEWLINE)
            case Place.LINE_END:
                return after in (Edge.OUTSIDE, Edge.NEWLINE)
            case Place.WORD_BOUNDARY | Place.NO_WORD_BOUNDARY:
                differs = (before is Edge.WORD) != (after is Edge.WORD)
                return differs == (self is Place.WORD_BOUNDARY)


class Fork(NamedTuple):
    """Continues at all of these offsets, relative to this step."""

    offsets: tuple[int, ...]


class Characters:
    """One character inside, or outside, these ranges; `folds` ignores case."""

    __slots__ = ("_folds", "_highs", "_is_inverted", "_lows")

    def __init__(self, ranges: Iterable[tuple[int, int]], *, folds: bool, inverted: bool) -> None:
        merged = list(_merged(ranges))
        self._lows = [low for low, _ in merged]
        self._highs = [high for _, high in merged]
        self._folds = folds
        self._is_inverted = inverted

    def __contains__(self, sign: str) -> bool:
        signs = _either_case(sign) if self._folds else (sign,)
        return any(map(self._holds, map(ord, signs))) != self._is_inverted

    def _holds(self, code: int) -> bool:
        index = bisect_right(self._lows, code) - 1
        return index >= 0 and code <= self._highs[index]


Program = Sequence[Characters | Place | Fork]


def joined(programs: Sequence[Program]) -> Program:
    """All programs in sequence."""
    return programs[0] if len(programs) == 1 else [step for part in programs for step in part]


def either(programs: Sequence[Program]) -> Program:
    """Any one of the programs."""
    *others, last = programs
    if not others:
        return last
    result: list[Characters | Place | Fork] = []
    end = sum(len(program) + 2 for program in others) + len(last)
    for program in others:
        result += [Fork((1, len(program) + 2)), *program]
        result.append(Fork((end - len(result),)))
    return [*result, *last]


def repeated(program: Program, least: int, most: int | None) -> Program:
    """Repeats a program at least and at most so many times; no `most` means no limit."""
    result = [*program] * least
    if most is None:
        again = [Fork((1, len(program) + 2)), *program, Fork((-len(program) - 1,))]
        return [*result, *again]
    size = len(program) + 1
    for left in range(most - least, 0, -1):
        result += [Fork((1, left * size)), *program]
    return result


class Automaton:
    """A program that matches strings."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._end = len(program)
        # The steps that each step leads to without a character; None if it consumes one, or ends.
        self._ways = [*map(_ways, range(self._end), program), None]
        self._looks_around = any(isinstance(step, Place) for step in program)
        self._start = _State(frozenset({0}), Edge.OUTSIDE)
        self._states: dict[tuple[frozenset[int], Edge], _State] = {}
        self._table_size = 0

    def fullmatch(self, text: str) -> bool:
        state = self._start
        for sign in text:
            state = state.after.get(sign) or self._advance(state, sign)
            if not state.places:
                return False
        if state.is_final is None:
            state.is_final = self._end in self._reachable(state, Edge.OUTSIDE)
        return state.is_final

    def _advance(self, state: "_State", sign: str) -> "_State":
        edge = _edge(sign) if self._looks_around else Edge.OTHER
        program, end = self._program, self._end
        verdicts: dict[int, bool] = {}
        places = []
        for place in self._reachable(state, edge):
            if place == end:
                continue
            step = program[place]
            accepts = verdicts.get(id(step))
            if accepts is None:
                assert isinstance(step, Characters), "a step that neither consumes nor forks"
                accepts = verdicts[id(step)] = sign in step
            if accepts:
                places.append(place + 1)
        return self._keep(state, sign, frozenset(places), edge)

    def _keep(self, state: "_State", sign: str, places: frozenset[int], edge: Edge) -> "_State":
        if self._table_size > _MAX_TABLE:
            self._states, self._table_size = {}, 0
            self._start = _State(frozenset({0}), Edge.OUTSIDE)
        successor = self._states.get((places, edge))
        if successor is None:
            successor = self._states[places, edge] = _State(places, edge)
            self._table_size += len(places)
        state.after[sign] = successor
        self._table_size += 1
        return successor

    def _reachable(self, state: "_State", after: Edge) -> list[int]:
        """The places where the program consumes a character or ends, if `after` comes next."""
        ways, program = self._ways, self._program
        seen = bytearray(self._end + 1)
        waiting = list(state.places)
        for place in waiting:
            seen[place] = 1
        stops = []
        while waiting:
            place = waiting.pop()
            leading = ways[place]
            if leading is None:
                stops.append(place)
                continue
            if self._looks_around:
                step = program[place]
                if isinstance(step, Place) and not step.holds(state.before, after):
                    continue
            for other in leading:
                if not seen[other]:
                    seen[other] = 1
                    waiting.append(other)
        return stops


def _ways(place: int, step: Characters | Place | Fork) -> tuple[int, ...] | None:
    if isinstance(step, Fork):
        return tuple(place + offset for offset in step.offsets)
    return (place + 1,) if isinstance(step, Place) else None


class _State:
    """The places that some characters lead to, and the next state for each character."""

    __slots__ = ("after", "before", "is_final", "places")

    def __init__(self, places: frozenset[int], before: Edge) -> None:
        self.places = places
        self.before = before
        self.after: dict[str, _State] = {}
        self.is_final: bool | None = None


def _edge(sign: str) -> Edge:
    if sign == "\n":
        return Edge.NEWLINE
    return Edge.WORD if sign.isascii() and (sign.isalnum() or sign == "_") else Edge.OTHER


def _either_case(sign: str) -> set[str]:
    lower, upper = sign.lower(), sign.upper()
    cases = {sign, lower, upper, lower.upper(), upper.lower()}
    return {case for case in cases if len(case) == 1}


def _merged(ranges: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The same characters in sorted ranges that do not touch."""
    current: tuple[int, int] | None = None
    for low, high in sorted(ranges):
        if current is None:
            current = (low, high)
        elif low <= current[1] + 1:
            current = (current[0], max(current[1], high))
        else:
            yield current
            current = (low, high)
    if current is not None:
        yield current
