"""Which arguments are NumPy's, for calls into Spark's JVM. No JVM starts here."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from embedkafka.spark.connector.installed import (
    InstalledSpark,
    release_numbers,
    require_installed_spark,
)
from embedkafka.spark.quick_arguments import quick_arguments

#: Asks each of PySpark's converters about an argument, as every call does.
ASK = """
import sys
from pathlib import Path
import pyspark.sql
from py4j.protocol import INPUT_CONVERTER
from embedkafka.spark.connector.installed import require_installed_spark
from embedkafka.spark.quick_arguments import quick_arguments

with quick_arguments(require_installed_spark()):
    assert not any(converter.can_convert("text") for converter in INPUT_CONVERTER)
print(sorted({"grpc", "pandas", "pyarrow", "pyspark.testing"} & sys.modules.keys()))
"""


def test_an_argument_imports_no_package() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ASK], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.returncode) == ("[]\n", 0), done.stderr


def test_values_of_numpy_are_still_known() -> None:
    if release_numbers(require_installed_spark().release)[:2] != (4, 0):
        pytest.skip("another PySpark checks its arguments itself")
    numpy = pytest.importorskip("numpy")
    from pyspark.sql import types

    scalars: Any = types.NumpyScalarConverter()
    arrays: Any = types.NumpyArrayConverter()
    before = types.NumpyScalarConverter.can_convert

    with quick_arguments(InstalledSpark(release="4.0.0", scala="2.13", jars_dir=Path("jars"))):
        assert types.NumpyScalarConverter.can_convert is not before
        assert scalars.can_convert(numpy.int64(1))
        assert not scalars.can_convert(numpy.array([1]))
        assert not scalars.can_convert(1)
        assert arrays.can_convert(numpy.array([1]))
        assert not arrays.can_convert(numpy.array([[1]]))
        assert not arrays.can_convert([1])

    assert types.NumpyScalarConverter.can_convert is before
