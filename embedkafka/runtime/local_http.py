"""An HTTP server on loopback for this machine's browsers and tools, which nothing can hold up.

Owner: the caller's thread of `serve_forever`; each connection has its own thread. `_lock`
(leaf) guards the list of connections.
Invariants: a silent client keeps only its own thread waiting, for `_PATIENCE_S` at most. After
`end`, no connection is open.
Not here: what is served (`cluster.metrics_page`, `page.server`).
"""

import logging
import socket
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from embedkafka.runtime.addresses import LOOPBACK
from embedkafka.runtime.locks import LEAF_RANK, ranked_lock

_LOG = logging.getLogger(__name__)

_PATIENCE_S: Final = 30.0


class LocalHandler(BaseHTTPRequestHandler):
    """Reads one request after the other, and writes nothing to the terminal."""

    timeout = _PATIENCE_S
    server: "LocalHttpServer"

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing: the terminal belongs to the test."""

    @property
    def is_for_us(self) -> bool:
        """Whether the client means this server, rather than a site whose name leads here.

        Browsers send the name that they looked up, also if it points to this machine, and the site
        whose page asks.
        """
        names = {f"{LOOPBACK}:{self.server.server_port}", f"localhost:{self.server.server_port}"}
        host, origin = self.headers.get("Host"), self.headers.get("Origin")
        return (host is None or host.lower() in names) and (
            origin is None or origin.removeprefix("http://") in names
        )


class LocalHttpServer(ThreadingHTTPServer):
    """Serves this machine until `end`."""

    daemon_threads = True

    def __init__(self, port: int, handler: type[LocalHandler]) -> None:
        """Raises OSError if the port is taken."""
        self._lock = ranked_lock("http connections", LEAF_RANK)
        self._connections: set[socket.socket] = set()
        super().__init__((LOOPBACK, port), handler)

    def end(self) -> None:
        """Ends `serve_forever`, and all connections."""
        self.shutdown()
        self.server_close()
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # its client has left

    def process_request(self, request: Any, client_address: Any) -> None:  # Any: as `socketserver`
        with self._lock:
            self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:  # Any: as above
        with self._lock:
            self._connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:  # Any: as above
        """Clients that leave early are no failure."""
        error = sys.exception()
        if not isinstance(error, OSError):
            _LOG.error("cannot answer %s", client_address, exc_info=error)
