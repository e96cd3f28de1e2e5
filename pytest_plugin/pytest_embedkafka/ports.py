"""Fixed ports, of which each belongs to one worker of pytest-xdist at a time.

A claim is a locked directory below the temporary directory that all workers of a run share. It ends
with its worker, even if that crashes.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest


@contextmanager
def claiming_ports(ports: Iterable[int], request: pytest.FixtureRequest) -> Iterator[None]:
    """Raises `ConfigError` if another worker has one of the ports, and names the worker."""
    worker: str = getattr(request.config, "workerinput", {}).get("workerid", "")
    with ExitStack() as claims:
        for port in ports if worker else ():
            own: Path = request.getfixturevalue("tmp_path_factory").getbasetemp()
            _claim(port, worker, own.parent / f"embedkafka-port-{port}", claims)
        yield


def _claim(port: int, worker: str, directory: Path, claims: ExitStack) -> None:
    from embedkafka import ConfigError, DirectoryInUse
    from embedkafka.runtime.files import SystemFiles

    directory.mkdir(exist_ok=True)
    # Before the claim, so that a worker that finds it taken finds the name too.
    (directory / f"process {os.getpid()}").write_text(worker)
    try:
        claims.callback(SystemFiles().lock_directory(directory).release)
    except DirectoryInUse as error:
        raise ConfigError(
            f"port {port} is in use: worker {_find_holder(directory, error)} has it, and only one "
            f'can. Give the tests that need it to one worker, with @pytest.mark.xdist_group("port-'
            f'{port}") and --dist loadgroup, or with --dist loadfile if they are in one file. Or '
            f"let all workers share one cluster: --kafka-port={port} --kafka-xdist=shared"
        ) from error


def _find_holder(directory: Path, error: Exception) -> str:
    """The worker whose process the error names."""
    names = {each.name: each for each in directory.glob("process *")}
    found = names.get(str(error).partition(" is in use by ")[2])
    return "another one" if found is None else found.read_text()
