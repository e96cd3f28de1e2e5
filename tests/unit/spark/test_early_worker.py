"""Python workers that connect to Spark at once. No JVM starts here: the test is Spark."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from embedkafka.spark import early_worker, remote
from embedkafka.spark.connector.installed import InstalledSpark

PATIENCE_S = 60

#: Stands in for `pyspark.util`, whose import ends when the test opens the gate.
UTIL = """
import os
with open(os.environ["GATE"]) as gate:
    gate.read()
def local_connect_and_auth(port, secret):
    return f"{port} {secret}"
"""
WORKER = """
import os, sys
from pyspark.util import local_connect_and_auth
stream, connection = local_connect_and_auth(int(os.environ["PYTHON_WORKER_FACTORY_PORT"]), "")
other = local_connect_and_auth(1, "other")
stream.write(f"{__name__} {sys.path[0]} {other}".encode())
stream.flush()
"""

pytestmark = pytest.mark.skipif(os.name != "posix", reason="a shell starts the workers")


def test_a_worker_connects_before_it_imports_pyspark(tmp_path: Path) -> None:
    """`python -m` would import first, and this test would not get past `accept`."""
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").touch()
    (tmp_path / "pyspark" / "util.py").write_text(UTIL)
    (tmp_path / "some_worker.py").write_text(WORKER)
    os.mkfifo(tmp_path / "gate")
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE_S)
        environ = {
            **os.environ,
            early_worker.PORT: str(server.getsockname()[1]),
            early_worker.SECRET: "secret",
            "GATE": str(tmp_path / "gate"),
        }
        with subprocess.Popen(
            [sys.executable, early_worker.__file__, "-m", "some_worker"], cwd=tmp_path, env=environ
        ) as worker:
            connection, _ = server.accept()
            with connection, connection.makefile("rwb") as stream:
                assert stream.read(10) == b"\0\0\0\x06secret"
                stream.write(b"\0\0\0\x02ok")
                stream.flush()
                (tmp_path / "gate").write_text("open")
                assert stream.read() == f"__main__ {tmp_path} 1 other".encode()
            assert worker.wait(PATIENCE_S) == 0


def test_other_processes_of_spark_are_pythons_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The daemon, for instance, from which Spark forks the workers of tasks."""
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.delenv(early_worker.PORT, raising=False)
    with remote._early_workers(spark("4.0.1")) as environ:
        command = [environ["PYSPARK_PYTHON"], "-c", "import sys; print(sys.argv, sys.executable)"]
        done = subprocess.run([*command, "a b"], capture_output=True, text=True, check=True)
        assert done.stdout == f"['-c', 'a b'] {sys.executable}\n"
    assert not Path(environ["PYSPARK_PYTHON"]).exists()


def test_workers_of_another_release_and_the_callers_python_are_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    with remote._early_workers(spark("4.1.0")) as environ:
        assert environ == {}
    monkeypatch.setenv("PYSPARK_PYTHON", "/my/python")
    with remote._early_workers(spark("4.0.0")) as environ:
        assert environ == {}


def spark(release: str) -> InstalledSpark:
    return InstalledSpark(release=release, scala="2.13", jars_dir=Path("jars"))
