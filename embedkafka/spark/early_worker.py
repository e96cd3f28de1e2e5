"""A program that runs a Python worker of Spark, and connects it before it imports PySpark.

Spark Connect starts a process for the function of each `foreachBatch` and waits ten seconds for its
connection; there is no setting for it. The imports alone take a second of CPU, and longer than that
on a busy machine.
Spark starts it with the arguments of Python, `-m MODULE`; it imports as little as it can.
"""

import os
import runpy
import socket
import struct
import sys
from typing import Any, Final

PORT: Final = "PYTHON_WORKER_FACTORY_PORT"
SECRET: Final = "PYTHON_WORKER_FACTORY_SECRET"
_LENGTH: Final = struct.Struct("!i")


def main() -> None:
    sys.path[0] = os.getcwd()  # as `python -m` has it
    _, _, module, *_ = sys.argv
    own_port = int(os.environ[PORT])
    connected = _connect(own_port, os.environ[SECRET].encode())

    import pyspark.util

    util: Any = pyspark.util  # untyped in PySpark
    connect = util.local_connect_and_auth
    util.local_connect_and_auth = lambda port, secret: (
        connected if port == own_port else connect(port, secret)
    )
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _connect(port: int, secret: bytes) -> tuple[Any, socket.socket]:
    """What PySpark's `local_connect_and_auth` returns. Any: a file that reads and writes."""
    connection = socket.create_connection(("127.0.0.1", port))
    stream: Any = connection.makefile("rwb", int(os.environ.get("SPARK_BUFFER_SIZE", 65536)))
    stream.write(_LENGTH.pack(len(secret)) + secret)
    stream.flush()
    answer = stream.read(*_LENGTH.unpack(stream.read(_LENGTH.size)))
    if answer != b"ok":
        sys.exit(f"Spark does not accept this worker: {answer!r}")
    return stream, connection


if __name__ == "__main__":
    main()
