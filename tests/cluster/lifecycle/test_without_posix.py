"""A cluster works on a Python without the features of POSIX systems, or of Linux."""

import os
import subprocess
import sys

#: Runs before any other import. `sys.platform` is unchanged: the standard library depends on it.
TAKE_AWAY = """
import os, select, signal, sys
import _socket  # `socket` looks there when it is imported

ABSENT = {
    os: ["eventfd", "fork", "getuid", "pread", "pwrite", "register_at_fork", "sendfile", "uname",
         "O_CLOEXEC"],
    select: ["epoll", "poll"],
    signal: ["SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"],
    _socket: ["AF_UNIX", "MSG_MORE", "socketpair"],
}
for module, names in ABSENT.items():
    for name in names:
        if hasattr(module, name):
            delattr(module, name)


import socket


class NotThere:
    def __get__(self, instance, owner):
        raise AttributeError("sendmsg")


socket.socket.sendmsg = NotThere()  # the type that it inherits from cannot be changed
for name in ("fcntl", "grp", "pwd", "resource"):
    sys.modules[name] = None
"""

SERVE = """
from embedkafka import EmbeddedKafka

values = [b"%d" % n * 5000 for n in range(40)]
with EmbeddedKafka() as cluster:
    topic = cluster.topic("orders")
    topic.send_many(values)
    assert [message.value for message in topic.read(len(values))] == values
"""


def run(*parts: str) -> None:
    """Runs the parts as a program, unmeasured: a coverage run would import `socket` before it."""
    environ = {key: value for key, value in os.environ.items() if not key.startswith("COVERAGE_")}
    program = "\n".join(parts)
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60, env=environ)


def test_a_cluster_serves_records_without_posix() -> None:
    run(TAKE_AWAY, SERVE)
