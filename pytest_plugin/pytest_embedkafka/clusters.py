"""The clusters of a session: the one that the options describe, and others that marks ask for.

Each starts when a test first needs it and ends with the session.
"""

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_embedkafka.guard import Isolation
from pytest_embedkafka.marks import Shape
from pytest_embedkafka.options import embedded_settings, read_options
from pytest_embedkafka.sharing import find_shared
from pytest_embedkafka.skips import skip_external
from pytest_embedkafka.targets import external_cluster

if TYPE_CHECKING:
    from pytest_embedkafka.external import ExternalKafka

_KEPT_OPEN: Final = (
    "`kafka` is the session's cluster and ends with it. For a cluster to close, use the fixture "
    "`kafka_cluster`: `own = kafka_cluster()`; to stop a broker, `kafka.broker(1).stop()`"
)


class Clusters:
    """Starts clusters and keeps them. Any: an external cluster has some of the methods."""

    def __init__(self, config: pytest.Config, running: ExitStack) -> None:
        self._config = config
        self._running = running
        self._started: dict[Shape | None, tuple[Any, Isolation]] = {}

    def require(self, shape: Shape | None) -> tuple[Any, Isolation]:
        """The cluster of that shape, running, and what puts it right after a test."""
        if shape not in self._started:
            self._started[shape] = self._start(shape)
        return self._started[shape]

    def _start(self, shape: Shape | None) -> tuple[Any, Isolation]:
        if shape is None and (external := find_external(self._config)):
            self._running.enter_context(external)
            return external, external.isolated()
        options = read_options(self._config)
        if named := external_cluster(options):
            skip_external(f"cluster({shape})", named[0])
        from embedkafka import EmbeddedKafka

        settings: dict[str, Any] = {} if shape is None else dict(shape.settings)
        config = {**options.kafka_config, **settings.get("config", {})}
        embedded = self._running.enter_context(
            EmbeddedKafka(**{**embedded_settings(options), **settings, "config": config})
        )
        embedded._kept_open = _KEPT_OPEN
        return embedded, embedded._isolation()


def find_external(config: pytest.Config) -> "ExternalKafka | None":
    """The cluster that the workers share, or the one that the options name, if any."""
    shared = find_shared(config)
    named = None if shared else external_cluster(read_options(config))
    if not shared and not named:
        return None
    from pytest_embedkafka.external import ExternalKafka

    if shared:
        return ExternalKafka(shared.bootstrap_servers, shared=shared)
    assert named is not None
    servers, settings = named
    return ExternalKafka(servers, settings=settings)
