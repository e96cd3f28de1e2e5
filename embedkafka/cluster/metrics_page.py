"""A page with the cluster's metrics in Prometheus's format, at `/metrics` on its own port.

Owner: the thread `ek-metrics`; each request has its own.
"""

import errno
from typing import TYPE_CHECKING, Final

from embedkafka.runtime.addresses import LOOPBACK
from embedkafka.runtime.failures import ClusterClosed, ConfigError, Failures
from embedkafka.runtime.local_http import LocalHandler, LocalHttpServer
from embedkafka.runtime.threads import end_thread, start_thread

if TYPE_CHECKING:
    from embedkafka.cluster.embedded import EmbeddedKafka

_PATH: Final = "/metrics"
_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class MetricsPage:
    """Serves the page until `close`. Counters begin when it is made."""

    def __init__(self, kafka: "EmbeddedKafka", *, port: int = 0) -> None:
        class Handler(LocalHandler):
            def do_GET(self) -> None:
                if not self.is_for_us:
                    self._reply(403, "this server has another name\n")
                elif self.path == "/":
                    self._reply(200, f"metrics for Prometheus are at {_PATH}\n")
                elif self.path.partition("?")[0] != _PATH:
                    self._reply(404, f"see {_PATH}\n")
                else:
                    try:
                        self._reply(200, kafka.metrics().prometheus())
                    except ClusterClosed as error:
                        self._reply(503, f"{error}\n")

            def _reply(self, status: int, text: str) -> None:
                body = text.encode()
                self.send_response(status)
                self.send_header("Content-Type", _TYPE)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        kafka.metrics()
        self._failures = Failures()
        try:
            self._server = LocalHttpServer(port, Handler)
        except OSError as error:
            reason = str(error)
            if error.errno == errno.EADDRINUSE:
                reason = (
                    f"port {port} is in use: choose another `metrics_port`, or 0 for a free one"
                )
            raise ConfigError(f"cannot serve metrics on {LOOPBACK}:{port}: {reason}") from error
        self.url = f"http://{LOOPBACK}:{self._server.server_port}{_PATH}"
        self._thread = start_thread("ek-metrics", self._server.serve_forever, self._failures)

    def close(self) -> None:
        self._server.end()
        end_thread(self._thread, self._failures)
