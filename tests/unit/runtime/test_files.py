"""Directory locks: one holder at a time, in whatever process, for as long as it lives."""

import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from embedkafka.runtime.failures import DirectoryInUse
from embedkafka.runtime.files import SystemFiles
from tests.presence import present

FILES = SystemFiles()

HOLDER = """
import sys
from pathlib import Path
from embedkafka.runtime.files import SystemFiles
lock = SystemFiles().lock_directory(Path(sys.argv[1]))
print("locked", flush=True)
sys.stdin.read()
"""

#: Locks as Java's FileChannel.tryLock does: a POSIX lock on the whole file, nothing written.
TRIES = """
import fcntl, sys
with open(sys.argv[1] + "/.lock", "r+b") as file:
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[Any]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert present(process.stdout).readline() == "locked\n"
    yield process
    process.kill()
    process.communicate()


def refuses_others(directory: Path) -> bool:
    tried = subprocess.run([sys.executable, "-c", TRIES, str(directory)], capture_output=True)
    return b"BlockingIOError" in tried.stderr


def test_a_lock_keeps_out_the_rest_of_the_process(tmp_path: Path) -> None:
    lock = FILES.lock_directory(tmp_path)
    for _ in range(2):
        with pytest.raises(DirectoryInUse, match="in use by this process already"):
            FILES.lock_directory(tmp_path)
    assert refuses_others(tmp_path), "a refusal must not release the lock"
    lock.release()
    lock.release()
    assert not refuses_others(tmp_path)
    again = FILES.lock_directory(tmp_path)
    lock.release()
    assert refuses_others(tmp_path), "a second release must not affect another lock"
    again.release()


def test_a_lock_says_which_process_has_it_and_ends_with_that(tmp_path: Path, holder: Any) -> None:
    assert (tmp_path / ".lock").read_text() == f"{holder.pid}\n"
    with pytest.raises(DirectoryInUse, match=f"{tmp_path} is in use by process {holder.pid}$"):
        FILES.lock_directory(tmp_path)
    holder.kill()
    holder.wait(30)
    FILES.lock_directory(tmp_path).release()
    assert (tmp_path / ".lock").read_text() == ""


def test_the_kernel_is_asked_for_the_holder_whatever_the_file_says(
    tmp_path: Path, holder: Any
) -> None:
    (tmp_path / ".lock").write_text("1\n")
    with pytest.raises(DirectoryInUse, match=f"by process {holder.pid}$"):
        FILES.lock_directory(tmp_path)


def test_a_lock_that_nobody_holds_any_more_is_let_go(tmp_path: Path) -> None:
    lock = FILES.lock_directory(tmp_path)
    del lock
    gc.collect()
    FILES.lock_directory(tmp_path).release()


def test_a_directory_without_a_lock_file_may_be_left_without(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        FILES.lock_directory(tmp_path, create=False)
    assert not (tmp_path / ".lock").exists()


# Python warns of a fork in a process with threads; those of pytest-xdist or earlier tests may run.
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_has_no_lock_and_ends_none(tmp_path: Path) -> None:
    lock = FILES.lock_directory(tmp_path)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            lock.release()
            del lock
            FILES.lock_directory(tmp_path)
        except DirectoryInUse as error:
            code = 0 if f"process {os.getppid()}" in str(error) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert refuses_others(tmp_path)
    lock.release()
