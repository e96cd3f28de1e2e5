"""Opens the live page: `kafka.open_ui()` and `embedkafka ui`."""

import webbrowser
from typing import TYPE_CHECKING

from embedkafka.page.server import PageServer
from embedkafka.page.source import EmbeddedSource

if TYPE_CHECKING:
    from embedkafka.cluster.embedded import EmbeddedKafka


def open_page(kafka: "EmbeddedKafka", *, port: int = 0, browser: bool = True) -> PageServer:
    """A server for the page of an embedded cluster, which ends with the cluster."""
    server = PageServer(EmbeddedSource(kafka), port=port)
    kafka._require_brokers().pages.append(server)
    if browser:
        webbrowser.open(server.url)
    return server
