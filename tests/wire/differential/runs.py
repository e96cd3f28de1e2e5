"""Runs sequences of a family on both clusters, and shortens one that shows a difference."""

import itertools
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from random import Random
from typing import Protocol

from embedkafka.wire.protocol.api_keys import ApiKey
from tests.wire.clients import Cluster
from tests.wire.differential.pair import Conversation, Differs
from tests.wire.differential.steps import Step
from tests.wire.plain_messages import Plain

Versions = Callable[[ApiKey], range]
"""The versions of an API that both clusters speak."""


class Family(Protocol):
    """Invents the steps of one sequence."""

    def begin(self) -> Iterable[Step]:
        """The steps that every sequence starts with."""

    def next(self, is_busy: Callable[[int], bool]) -> Step:
        """One more step, on a connection that is not busy."""

    def learn(self, step: Step, answer: Plain) -> None:
        """Takes note of an answer, in which names stand for ids."""


NewFamily = Callable[[Random, Versions], Family]


class Runner:
    """Two clusters, on which sequences run one after another."""

    def __init__(self, clusters: tuple[Cluster, Cluster]) -> None:
        self._clusters = clusters
        self._run = secrets.token_hex(2)
        self._count = itertools.count(1)
        self._spoken: dict[ApiKey, range] = {}

    def versions(self, api: ApiKey) -> range:
        if api not in self._spoken:
            with self._clusters[0].connect() as ours, self._clusters[1].connect() as theirs:
                a, b = ours.supported_versions(api), theirs.supported_versions(api)
            self._spoken[api] = range(max(a.start, b.start), min(a.stop, b.stop))
        return self._spoken[api]

    def explore(self, new_family: NewFamily, *, seed: int, length: int) -> None:
        """Runs one sequence; raises `Failed` with its shortest form if answers differ."""
        family = new_family(Random(seed), self.versions)
        first = list(family.begin())
        taken: list[Step] = []
        try:
            with closing(self._conversation()) as conversation:
                for step in _steps(first, family, conversation, length):
                    taken.append(replace(step, number=len(taken)))
                    for answered, answer in conversation.take(taken[-1]):
                        family.learn(answered, answer)
        except Differs as differs:
            raise self.shortened(taken, differs, len(first)) from None

    def replay(self, steps: Sequence[Step]) -> Differs | None:
        try:
            with closing(self._conversation(settle_s=0.5)) as conversation:
                for step in steps:
                    for _ in conversation.take(step):
                        pass
        except Differs as differs:
            return differs
        return None

    def shortened(self, steps: list[Step], first: Differs, fixed: int) -> "Failed":
        """Leaves out steps, but not the first `fixed`, while the same difference stays."""
        if (again := self.replay(steps)) is None:
            return Failed(steps, first, repeats=False)
        size = max(1, len(steps) // 2)
        while True:
            for start in range(len(steps) - size, fixed - 1, -size):
                fewer = steps[:start] + steps[start + size :]
                found = self.replay(fewer)
                if found is not None and found.what == again.what:
                    steps, again = fewer, found
            if size == 1:
                return Failed(*self._with_less(steps, again, fixed), repeats=True)
            size = size // 2

    def _with_less(
        self, steps: list[Step], last: Differs, fixed: int
    ) -> tuple[list[Step], Differs]:
        """Leaves out elements of the lists in each request."""
        for index in range(len(steps) - 1, fixed - 1, -1):
            for path in list(_elements(steps[index].fields))[::-1]:
                less = replace(steps[index], fields=_without(steps[index].fields, path))
                fewer = [*steps[:index], less, *steps[index + 1 :]]
                found = self.replay(fewer)
                if found is not None and found.what == last.what:
                    steps, last = fewer, found
        return steps, last

    def _conversation(self, *, settle_s: float = 3.0) -> Conversation:
        prefix = f"x{self._run}{next(self._count)}-"
        return Conversation(self._clusters, prefix, settle_s=settle_s)


class Failed(AssertionError):
    """A sequence to which the clusters answer differently."""

    def __init__(self, steps: Sequence[Step], differs: Differs, *, repeats: bool) -> None:
        told = "" if repeats else " (only once: it did not happen again)"
        lines = [
            f"after {len(steps)} steps{told}:",
            *(str(step) for step in steps),
            f"answers to {differs.step.number}:",
            str(differs),
        ]
        super().__init__("\n".join(lines))
        self.differs = differs
        self.repeats = repeats


def _steps(
    first: Iterable[Step], family: Family, conversation: Conversation, length: int
) -> Iterator[Step]:
    yield from first
    for _ in range(length):
        yield family.next(conversation.is_busy)


def _elements(value: Plain, path: tuple[Plain, ...] = ()) -> Iterator[tuple[Plain, ...]]:
    """The paths to all elements of lists, outer ones first."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _elements(inner, (*path, name))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield (*path, index)
            yield from _elements(inner, (*path, index))


def _without(value: Plain, path: tuple[Plain, ...]) -> Plain:
    """A copy without the element at this path, if it is still there."""
    first, *rest = path
    if isinstance(value, Mapping):
        return {**value, first: _without(value[first], tuple(rest))}
    if first >= len(value):
        return value
    inner = [_without(value[first], tuple(rest))] if rest else []
    return [*value[:first], *inner, *value[first + 1 :]]
