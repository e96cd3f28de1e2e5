"""What a job raised, without what Spark and py4j put around it."""

import re
import traceback
from collections.abc import Iterator, Sequence
from typing import Final

_TRACEBACK: Final = "Traceback (most recent call last):"
_FRAME: Final = re.compile(r'\s*File "([^"]+)"')
_THEIRS: Final = re.compile(r"[/\\](pyspark|py4j)[/\\]")
_JAVA_FRAME: Final = re.compile(r"\s+at [\w.$/]+\(|\s*\.\.\. \d+ more|Driver stacktrace:")
_MOST_LINES: Final = 20
_PLAN: Final = "=== Streaming Query ==="
"""Spark appends the query's offsets and plan."""
_STATE: Final = re.compile(r"\s*SQLSTATE: \w+")


class JobFailed(Exception):
    """The job raised under a schedule; `cause_text` is what it raised, as its author knows it."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(cause_text(error))
        self.error = error


def cause_text(error: BaseException) -> str:
    """The exception's own traceback if Python raised it, else its message without Java's frames."""
    text = _STATE.sub("", str(error).partition(_PLAN)[0])
    if _TRACEBACK in text:  # of a function that Spark called: `foreachBatch`, a UDF
        return "\n".join(_own_frames(text[text.rindex(_TRACEBACK) :].splitlines()))
    if type(error).__module__.partition(".")[0] in ("pyspark", "py4j"):
        lines = [line for line in text.splitlines() if line.strip()]
        kept = [line for line in lines if not _JAVA_FRAME.match(line)]
        return "\n".join(
            [f"{type(error).__name__}: {kept[0]}" if kept else "", *kept[1:_MOST_LINES]]
        )
    return "".join(traceback.format_exception(error)).rstrip()


def _own_frames(lines: Sequence[str]) -> Iterator[str]:
    """The lines of a traceback, without frames of Spark, up to the exception's own line."""
    is_theirs = False
    for line in lines:
        if frame := _FRAME.match(line):
            is_theirs = _THEIRS.search(frame[1]) is not None
        elif not line.startswith(" "):
            is_theirs = False
        if _JAVA_FRAME.match(line):
            return
        if line.strip() and not is_theirs:
            yield line
