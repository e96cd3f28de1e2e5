"""Progress lines for a user who waits."""

import sys
from collections.abc import Callable

Progress = Callable[[str], None]


def print_progress(line: str) -> None:
    """Prints a line on stderr: stdout belongs to the program."""
    print(f"embedkafka: {line}", file=sys.stderr, flush=True)
