"""Imports the library without pytest's rewriting of assertions.

pytest rewrites every module of a distribution that declares a plugin. That is meant for a plugin's
own assertions; for the library it would cost a second when it is first imported.
"""

from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Final


class PlainImports:
    """A finder for the library, to be in `sys.meta_path` before pytest's."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name.partition(".")[0] == "embedkafka":
            return PathFinder.find_spec(name, path, target)
        return None


PLAIN_IMPORTS: Final = PlainImports()
