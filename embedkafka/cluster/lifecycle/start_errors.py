"""What an operating system's refusal to start a broker means to a user, with the way out."""

import errno
import socket

from embedkafka.broker.identity import BrokerSpec
from embedkafka.runtime.addresses import format_address
from embedkafka.runtime.failures import ConfigError
from embedkafka.wire.net.transport import CannotListen

_NO_SUCH_ADDRESS = (errno.EADDRNOTAVAIL, socket.EAI_NONAME, socket.EAI_AGAIN, socket.EAI_FAIL)


def start_error(spec: BrokerSpec, error: OSError) -> ConfigError:
    """The error to raise when a broker cannot listen on its address, or use its directory."""
    if not isinstance(error, CannotListen):
        return ConfigError(f"broker {spec.id} cannot start: {error}")
    host, port = error.host, error.port
    address = format_address(host, port)
    if error.errno == errno.EADDRINUSE:
        reason = f"port {port} is in use: choose another `port`, or 0 for free ports"
    elif error.errno == errno.EACCES and 0 < port < 1024:
        reason = f"port {port} is reserved for root: choose a `port` from 1024 on"
    elif error.errno in _NO_SUCH_ADDRESS:
        reason = (
            f"{host!r} is not an address of this machine: use '127.0.0.1', or '0.0.0.0' for "
            "all its addresses"
        )
    else:
        reason = str(error)
    return ConfigError(f"broker {spec.id} cannot start on {address}: {reason}")
