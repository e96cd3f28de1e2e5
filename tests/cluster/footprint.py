"""Runs a cluster and compares the process before and after: threads, files, descriptors.

It runs in a separate process, `python -m tests.cluster.footprint`, because a client left over from
another test opens and closes descriptors at any time.
"""

import os
import socket
import tempfile
import threading
from pathlib import Path
from typing import Any

from embedkafka import EmbeddedKafka


def our_threads() -> set[str]:
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("ek-")}


def open_descriptors() -> Any:
    """The targets of this process's descriptors; a pipe or socket counts by its number."""
    links = []
    for name in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{name}"))
        except FileNotFoundError:
            continue  # the descriptor of the listing itself
    return sorted(links)


def our_directories() -> Any:
    return set(Path(tempfile.gettempdir()).glob("embedkafka-*"))


def refuses(address: str) -> bool:
    host, port = address.split(":")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except ConnectionRefusedError:
        return True
    return False


def main() -> None:
    with EmbeddedKafka(brokers=3):  # do the imports, which open files too
        pass
    threads, files, descriptors = our_threads(), our_directories(), open_descriptors()
    with EmbeddedKafka(brokers=3, topics={"orders": 3}) as kafka:
        addresses = kafka.bootstrap_servers.split(",")
        assert our_threads() > threads
        assert our_directories() > files
        assert len(open_descriptors()) > len(descriptors)
        assert not any(map(refuses, addresses))
    assert our_threads() == threads, our_threads() - threads
    assert our_directories() == files, our_directories() - files
    assert open_descriptors() == descriptors, (open_descriptors(), descriptors)
    assert all(map(refuses, addresses)), addresses


if __name__ == "__main__":
    main()
