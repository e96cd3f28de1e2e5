"""A page with the cluster's metrics in Prometheus's format, at `/metrics` on its own port.

Owner: the thread `ek-metrics`, which answers one request after the other.
"""

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Final

from embedkafka.runtime.failures import ConfigError

if TYPE_CHECKING:
    from embedkafka.cluster.embedded import EmbeddedKafka

_PATH: Final = "/metrics"
_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class MetricsPage:
    """Serves the page until `close`. Counters begin when it is made."""

    def __init__(self, kafka: "EmbeddedKafka", *, port: int = 0, host: str = "127.0.0.1") -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                found = self.path.partition("?")[0] == _PATH
                body = (kafka.metrics().prometheus() if found else f"see {_PATH}\n").encode()
                self.send_response(200 if found else 404)
                self.send_header("Content-Type", _TYPE)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Says nothing: a page that is read every few seconds would fill the log."""

        kafka.metrics()
        try:
            self._server = HTTPServer((host, port), Handler)
        except OSError as error:
            raise ConfigError(f"cannot serve metrics on {host}:{port}: {error}") from error
        self.url = f"http://{host}:{self._server.server_address[1]}{_PATH}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="ek-metrics", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
