"""Lines that tell a waiting user what is going on."""

import sys
from collections.abc import Callable

Progress = Callable[[str], None]


def print_progress(line: str) -> None:
    """To stderr, as a line of its own: stdout belongs to the program."""
    print(f"embedkafka: {line}", file=sys.stderr, flush=True)
