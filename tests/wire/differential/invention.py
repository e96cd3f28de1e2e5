"""What all families choose by chance."""

from collections.abc import Sequence
from random import Random
from typing import Any, TypeVar

from embedkafka.wire.protocol.api_keys import ApiKey
from tests.wire.differential.runs import Versions
from tests.wire.differential.steps import Step
from tests.wire.plain_messages import Plain

T = TypeVar("T")


def draft(api: ApiKey, version: int, connection: int = 0, **fields: Plain) -> Step:
    return Step(api=api, version=version, connection=connection, fields=fields)


class Choices:
    def __init__(self, random: Random, versions: Versions) -> None:
        self._random = random
        self._versions = versions

    def version(self, api: ApiKey) -> int:
        """Any version that both clusters speak; the newest more often."""
        known = self._versions(api)
        return known[-1] if self.seldom(2) else self._random.choice(known)

    def seldom(self, one_in: int) -> bool:
        return self._random.randrange(one_in) == 0

    def some(self, all_: Sequence[T], weights: Sequence[float], *, at_most: int) -> list[T]:
        """One or more of them, seldom none, seldom one twice."""
        if self.seldom(40):
            return []
        count = self._random.randint(1, at_most)
        chosen: list[T] = []
        for _ in range(count):
            one = self._random.choices(all_, weights)[0]
            if one not in chosen or self.seldom(15):
                chosen.append(one)
        return chosen

    def one(self, *weighted: tuple[float, T]) -> T:
        weights, values = zip(*weighted, strict=True)
        return self._random.choices(values, weights)[0]


Model = dict[str, Any]
