"""Rows of Spark as mappings, so that records, rows and what a test writes can be compared."""

from typing import Any


def plain_row(row: Any) -> object:
    """A row of Spark as a mapping, anything else as it is. Any: PySpark is optional."""
    as_dict = getattr(row, "asDict", None)
    return row if as_dict is None else as_dict(recursive=True)
