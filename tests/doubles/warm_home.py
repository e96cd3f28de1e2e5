"""A private directory for warm JVMs, in place of the user's; nothing in it outlives a test."""

import fcntl
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from embedkafka.spark.warm.home import LOCK, ask, default_home
from embedkafka.spark.warm.messages import Ended
from tests.wire.clients import eventually


@contextmanager
def private_home() -> Iterator[Path]:
    """The directory that a process with its parent as TMPDIR takes."""
    directory = Path(tempfile.mkdtemp(prefix="ek"))  # pytest's own are too long for sockets
    home = directory / default_home().name
    home.mkdir(mode=0o700)
    try:
        yield home
    finally:
        for folder in home.glob("jvm-*"):
            with suppress(OSError, Ended):
                ask(folder, {"ask": "stop"})
        await_keepers(home)
        shutil.rmtree(directory)


def await_keepers(home: Path) -> None:
    """Waits until every keeper there has ended: it has its lock as long as it lives.

    One that is about to end removes its files one by one, and the lock may be the first.
    """
    for folder in home.glob("jvm-*"):
        try:
            with (folder / LOCK).open() as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
        except FileNotFoundError:
            eventually(partial(_is_gone, folder), f"{folder} is removed")


def _is_gone(folder: Path) -> bool:
    return not folder.exists()
