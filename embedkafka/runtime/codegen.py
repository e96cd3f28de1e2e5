"""Builds Python source: its lines, and the objects they refer to by name."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any


class Source:
    """One function under construction."""

    __slots__ = ("_indent", "_lines", "_names", "namespace")

    def __init__(self, namespace: Mapping[str, object]) -> None:
        self.namespace: dict[str, Any] = dict(namespace)
        self._lines: list[str] = []
        self._indent = ""
        self._names = 0

    def line(self, text: str) -> None:
        self._lines.append(self._indent + text)

    @contextmanager
    def block(self, opening: str) -> Iterator[None]:
        """Lines below `opening`, one level deeper."""
        self.line(opening)
        self._indent += " "
        yield
        self._indent = self._indent[:-1]

    def fresh(self, prefix: str) -> str:
        """A variable name not used before."""
        self._names += 1
        return f"{prefix}{self._names}"

    def constant(self, prefix: str, value: object) -> str:
        """A fresh name for an object."""
        name = self.fresh(prefix)
        self.namespace[name] = value
        return name

    def text(self) -> str:
        return "\n".join(self._lines)

    def compile(self, function: str, title: str) -> Any:  # Any: the function just written
        """Runs the source and returns the function it defines; tracebacks show `title`."""
        exec(compile(self.text(), f"<{title}>", "exec"), self.namespace)
        return self.namespace[function]
