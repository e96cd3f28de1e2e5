"""What commands print: lines, tables and complaints."""

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

JSON: Final = "json"
OUTPUTS: Final = ("table", JSON)


def print_lines(lines: Callable[[], Iterable[str]], *, to_the_end: bool = False) -> int:
    """Prints the lines, until there are no more or no one reads them.

    With `to_the_end` all of them are made in any case: each stands for something that is done.
    """
    for line in lines():
        try:
            print(line, flush=True)
        except BrokenPipeError:
            # The reader has closed the pipe, and Python must not try to flush again when it ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            if not to_the_end:
                break
    return 0


def table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, output: str
) -> Iterator[str]:
    """Rows with aligned columns, or one line of JSON with an object for each row."""
    if output == JSON:
        yield json.dumps([dict(zip(columns, row, strict=True)) for row in rows])
    else:
        yield from _aligned([columns, *([_cell(each) for each in row] for row in rows)])


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()


def print_addresses(listeners: Mapping[str, str], advertised: Mapping[str, str]) -> None:
    """A line for the first listener, and one with its name for each further one; both kinds."""
    first = next(iter(listeners))
    for word, addresses in (("BOOTSTRAP", listeners), ("ADVERTISED", advertised)):
        for name, address in addresses.items():
            print(f"{word if name == first else f'{word}.{name}'} {address}")
    sys.stdout.flush()


def complain(reason: str, *, code: int) -> int:
    print(f"embedkafka: {reason}", file=sys.stderr)
    return code
