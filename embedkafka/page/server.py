"""The live page: a small HTTP server on loopback for one cluster.

Owner: its threads; each request has one, for as long as it takes.
Invariants: every answer with data and every action needs this server's token in a special header,
which a page of another site can neither know nor send. Requests under another host name
are refused, so a name that is pointed at this machine gets nothing.
Not here: what a cluster's state is (`state`), the page itself (`document`).
"""

import hmac
import json
import secrets
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from embedkafka.page.document import live_page
from embedkafka.page.source import PageSource
from embedkafka.runtime.addresses import LOOPBACK
from embedkafka.runtime.failures import ConfigError, EmbedKafkaError, Failures, InvalidArgument
from embedkafka.runtime.local_http import LocalHandler, LocalHttpServer
from embedkafka.runtime.threads import end_thread, start_thread

TOKEN_HEADER: Final = "X-Embedkafka-Token"
_MOST_BYTES: Final = 1 << 20


class PageServer:
    """Serves a source until `close`. Use it in a `with` statement, or keep it."""

    def __init__(self, source: PageSource, *, port: int = 0) -> None:
        self._source = source
        self._is_closed = False
        self._token = secrets.token_urlsafe(24)
        self._failures = Failures()
        try:
            self._server = LocalHttpServer(port, self._handler())
        except OSError as error:
            source.close()
            raise ConfigError(f"cannot serve the page on {LOOPBACK}:{port}: {error}") from error
        self._thread = start_thread(
            "ek-page-server", lambda: self._server.serve_forever(0.1), self._failures
        )

    @property
    def url(self) -> str:
        """Where to look. The token is in the part that browsers do not send."""
        return f"http://{LOOPBACK}:{self._server.server_port}/#token={self._token}"

    def close(self) -> None:
        """Ends the server; a second call does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        self._server.end()
        end_thread(self._thread, self._failures)
        self._source.close()

    def __enter__(self) -> "PageServer":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<PageServer {self.url}>"

    def _handler(self) -> type[LocalHandler]:
        server = self

        class Handler(LocalHandler):
            def do_GET(self) -> None:
                server._answer(self, self._get)

            def do_POST(self) -> None:
                server._answer(self, self._post)

            def _get(self) -> object:
                asked = urlsplit(self.path)
                return server._get(asked.path, parse_qs(asked.query))

            def _post(self) -> object:
                size = int(self.headers.get("Content-Length") or 0)
                if not 0 < size <= _MOST_BYTES:
                    raise InvalidArgument("the request has no body, or too large a one")
                asked = json.loads(self.rfile.read(size))
                return server._post(urlsplit(self.path).path, asked)

        return Handler

    # -- requests

    def _answer(self, handler: LocalHandler, ask: Callable[[], object]) -> None:
        """Checks who asks, and sends what `ask` returns as JSON, or the page."""
        path = handler.path.partition("?")[0]
        if not handler.is_for_us:
            _send(handler, HTTPStatus.FORBIDDEN, {"error": "this server has another name"})
        elif path == "/" and handler.command == "GET":
            _send_page(handler, live_page())
        elif not self._has_token(handler):
            _send(handler, HTTPStatus.FORBIDDEN, {"error": "the token is missing or wrong"})
        else:
            try:
                _send(handler, HTTPStatus.OK, ask())
            except LookupError:
                _send(handler, HTTPStatus.NOT_FOUND, {"error": f"there is no {path}"})
            except (EmbedKafkaError, ValueError, TypeError, OSError) as error:
                _send(handler, HTTPStatus.BAD_REQUEST, {"error": str(error)})

    def _get(self, path: str, query: dict[str, list[str]]) -> object:
        if path == "/api/state":
            return self._source.document()
        if path == "/api/records":
            schema = query.get("schema", [""])[0]
            parsed = json.loads(schema) if schema else None
            return self._source.records(query["topic"][0], parsed)
        raise LookupError(path)

    def _post(self, path: str, asked: Any) -> object:
        """Any: JSON from the page."""
        if path != "/api/act":
            raise LookupError(path)
        self._source.act(asked)
        return {"done": True}

    def _has_token(self, handler: BaseHTTPRequestHandler) -> bool:
        given = handler.headers.get(TOKEN_HEADER) or ""
        return hmac.compare_digest(given.encode(), self._token.encode())


def _send(handler: BaseHTTPRequestHandler, status: HTTPStatus, content: object) -> None:
    _reply(handler, status, "application/json", json.dumps(content).encode())


def _send_page(handler: BaseHTTPRequestHandler, page: str) -> None:
    _reply(handler, HTTPStatus.OK, "text/html; charset=utf-8", page.encode())


def _reply(handler: BaseHTTPRequestHandler, status: HTTPStatus, kind: str, body: bytes) -> None:
    handler.send_response(status)
    handler.send_header("Content-Type", kind)
    handler.send_header("Content-Length", str(len(body)))
    handler.send_header("Cache-Control", "no-store")
    handler.send_header("X-Content-Type-Options", "nosniff")
    handler.send_header("Referrer-Policy", "no-referrer")
    handler.send_header("Content-Security-Policy", _POLICY)
    handler.end_headers()
    handler.wfile.write(body)


_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "connect-src 'self'; img-src data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
