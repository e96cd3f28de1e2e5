"""Calls from Python into Spark's JVM that import neither pandas nor gRPC.

PySpark 4.0 asks of every argument whether it is NumPy's, and asks its test tools whether there is a
NumPy at all. They import pandas, PyArrow and gRPC where these are installed, which is a fifth of
what Python does until a first test ends.
"""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final

from embedkafka.spark.connector.installed import InstalledSpark, release_numbers

_ASKING_RELEASE: Final = (4, 0)
"""Later ones ask NumPy."""


@contextmanager
def quick_arguments(spark: InstalledSpark) -> Iterator[None]:
    """Lets PySpark ask NumPy, if it was imported, for the length of a `with` block."""
    if release_numbers(spark.release)[:2] != _ASKING_RELEASE:
        yield
        return
    from pyspark.sql import types

    with ExitStack() as replaced:
        replaced.enter_context(_replaced_check(types.NumpyScalarConverter, _is_scalar))
        replaced.enter_context(_replaced_check(types.NumpyArrayConverter, _is_array))
        yield


def _is_scalar(_converter: object, value: object) -> bool:
    return isinstance(value, _numpy_type("generic"))


def _is_array(_converter: object, value: Any) -> bool:
    """Any: NumPy may not be installed."""
    return isinstance(value, _numpy_type("ndarray")) and value.ndim == 1


def _numpy_type(name: str) -> Any:
    """No type if NumPy was not imported: then no value is NumPy's. Any: see above."""
    return getattr(sys.modules.get("numpy"), name, ())


@contextmanager
def _replaced_check(converter: Any, check: Any) -> Iterator[None]:
    """Any: untyped in PySpark."""
    before = converter.can_convert
    converter.can_convert = check
    try:
        yield
    finally:
        converter.can_convert = before
