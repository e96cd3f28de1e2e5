"""Free TCP ports for programs that must be told their port before they start."""

import socket


def free_ports(count: int) -> list[int]:
    """Distinct loopback ports that nobody listened on a moment ago.

    All are held open together, so one call never gives a port twice; between this and the program's
    own bind another process may still take one, and the program then says so and ends.
    """
    holders = [socket.socket() for _ in range(count)]
    try:
        for holder in holders:
            holder.bind(("127.0.0.1", 0))
        return [int(holder.getsockname()[1]) for holder in holders]
    finally:
        for holder in holders:
            holder.close()
