"""Free TCP ports for programs that need their port before they start."""

import socket


def free_ports(count: int) -> list[int]:
    """Distinct loopback ports that were free a moment ago.

    All are held open together, so one call never returns a port twice. Another process may still
    take one before the program binds it; the program then reports that and ends.
    """
    holders = [socket.socket() for _ in range(count)]
    try:
        for holder in holders:
            holder.bind(("127.0.0.1", 0))
        return [int(holder.getsockname()[1]) for holder in holders]
    finally:
        for holder in holders:
            holder.close()
