"""A Spark Connect server in a process of its own: the test's process may have a session already.

`python -m tests.java_tools.spark_connect` prints its address and ends when its stdin closes; its
arguments are further modules of Spark, such as spark-avro.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from embedkafka.spark.remote import SERVER_SETTINGS, connect_server, server_address
from tests.java_tools.jvm import JavaProcessError, dies_with_parent

STOP_TIMEOUT_SECONDS: Final = 60.0
WITHOUT_CONNECTOR: Final = "--without-connector"


@contextmanager
def spark_connect(
    *, connector: bool = True, packages: Sequence[str] = (), python_path: Sequence[Path] = ()
) -> Iterator[str]:
    """Its address, for the length of a `with` block; Python functions find their modules there."""
    arguments: Sequence[str] = packages if connector else (WITHOUT_CONNECTOR,)
    module = [sys.executable, "-m", "tests.java_tools.spark_connect", *arguments]
    with subprocess.Popen(
        [*dies_with_parent(), *module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, python_path))},
    ) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            if not address.startswith("sc://"):
                raise JavaProcessError("the Spark Connect server ended before it was ready")
            yield address
        finally:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(STOP_TIMEOUT_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


def main(arguments: Sequence[str]) -> None:
    is_plain = WITHOUT_CONNECTOR in arguments
    with _plain_server() if is_plain else connect_server(packages=arguments) as address:
        print(address, flush=True)
        sys.stdin.read()


@contextmanager
def _plain_server() -> Iterator[str]:
    """A server without the connector."""
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.builder  # its type is a property object to the checker
    config = {**SERVER_SETTINGS, "spark.master": "local[1]", "spark.ui.enabled": "false"}
    session = builder.config(map=config).getOrCreate()
    try:
        yield server_address(session)
    finally:
        session.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
