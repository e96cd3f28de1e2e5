"""Free TCP ports for programs that need their port before they start."""

import contextlib
import random
import socket
from typing import Final

#: Below the ports that systems give to outgoing connections, one of which could take a port before
#: the program binds it: the nodes of a cluster call each other while they start.
_PORTS: Final = range(15_000, 32_000)


def free_ports(count: int) -> list[int]:
    """Distinct loopback ports that were free a moment ago.

    All are held open together, so one call never returns a port twice. Another process may still
    take one before the program binds it; the program then reports that and ends.
    """
    with contextlib.ExitStack() as held:
        ports: list[int] = []
        while len(ports) < count:
            holder = held.enter_context(socket.socket())
            port = random.choice(_PORTS)
            with contextlib.suppress(OSError):
                holder.bind(("127.0.0.1", port))
                ports.append(port)
        return ports


def free_row(count: int) -> int:
    """The first of some ports in a row, all of which were free a moment ago, as in `free_ports`."""
    while True:
        first = random.choice(_PORTS)
        with contextlib.ExitStack() as held, contextlib.suppress(OSError):
            for port in range(first, first + count):
                held.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return first
