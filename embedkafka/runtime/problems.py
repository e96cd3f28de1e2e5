"""Collects all that is wrong with a configuration, so that a user can mend it at once."""

from collections.abc import Callable
from typing import TypeVar

from embedkafka.runtime.failures import ConfigError

_Made = TypeVar("_Made")


class Problems:
    """The `ConfigError`s of checks that do not depend on each other."""

    def __init__(self) -> None:
        self._errors: list[ConfigError] = []

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._errors)

    def add(self, problem: str) -> None:
        self._errors.append(ConfigError(problem))

    def check(self, check: Callable[[], object]) -> bool:
        """Whether `check` passes; keeps its error if not."""
        before = len(self._errors)
        self.attempt(check)
        return len(self._errors) == before

    def attempt(self, make: Callable[[], _Made]) -> _Made | None:
        """What `make` returns; None if it fails, and its error is kept."""
        try:
            return make()
        except ConfigError as error:
            self._errors.append(error)
            return None

    def raise_all(self) -> None:
        """Raises one error for all; nothing if there are none."""
        found = dict.fromkeys(problem for error in self._errors for problem in error.problems)
        if len(found) == 1:
            raise self._errors[0]
        if found:
            raise ConfigError(*found)
