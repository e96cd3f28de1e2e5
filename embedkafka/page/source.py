"""Where a live page gets its data, and what its buttons do: a cluster here, or one elsewhere.

Owner: `_lock` (leaf) guards the tail; requests come on threads of the server.
"""

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from embedkafka.cluster.clients.client_view import ClientView
from embedkafka.cluster.clients.decoding import Decoders, require_decoder
from embedkafka.page.recorder import Recorder, now_ms
from embedkafka.page.state import Json, embedded_state, external_state
from embedkafka.page.tail import Tail
from embedkafka.runtime.arguments import require_number
from embedkafka.runtime.failures import EmbedKafkaError, InvalidArgument
from embedkafka.runtime.locks import LEAF_RANK, ranked_lock

if TYPE_CHECKING:
    from embedkafka.cluster.embedded import EmbeddedKafka

_ACTIONS: Final = "kill, stop, start, pause, resume, partition, heal or advance"


class PageSource(Protocol):
    """One cluster, as the server of a page uses it."""

    def document(self) -> Json: ...

    def records(self, topic: str, schema: object) -> Json: ...

    def act(self, asked: Any) -> None:
        """Does what a button asks for. Any: JSON from the page."""
        ...

    def close(self) -> None: ...


class _Tails:
    """The tail of the topic that was asked for last."""

    def __init__(self, view: Callable[[], ClientView], decoders: Decoders | None = None) -> None:
        self._view = view
        self._decoders = Decoders() if decoders is None else decoders
        self._lock = ranked_lock("tail of a page", LEAF_RANK)
        self._tail: Tail | None = None

    def records(self, topic: str, schema: object) -> Json:
        with self._lock:
            old, tail = None, self._tail
            if tail is None or tail.topic != topic or not tail.is_alive:
                old, tail = tail, Tail(self._view(), topic)
                self._tail = tail
        if old is not None:
            old.end()
        # A schema that someone has pasted there is for what they look at now.
        decode = (
            self._decoders.find(topic) if schema is None else require_decoder(json.dumps(schema))
        )
        return {"topic": topic, "records": tail.records(decode), "error": tail.error}

    def close(self) -> None:
        if self._tail is not None:
            self._tail.stop()


class EmbeddedSource:
    """A cluster of this process; it is recorded while the page is open."""

    def __init__(self, kafka: "EmbeddedKafka") -> None:
        self._kafka = kafka
        self._brokers = kafka._require_brokers()
        self._recorder = Recorder(kafka, "live")
        self._recorder.start()
        self._tails = _Tails(self._new_view, self._brokers.decoders)

    def _new_view(self) -> ClientView:
        settings, servers = self._kafka._reach.settings_for(None)
        return ClientView(servers, settings)

    def document(self) -> Json:
        return {
            "title": "embedkafka",
            "bootstrap": _bootstrap(self._kafka),
            "clusters": [
                {
                    "label": "live",
                    "timeline": self._recorder.timeline(),
                    "state": embedded_state(self._brokers),
                }
            ],
        }

    def records(self, topic: str, schema: object) -> Json:
        return self._tails.records(topic, schema)

    def act(self, asked: Any) -> None:
        if not isinstance(asked, Mapping):
            raise InvalidArgument("an action is an object")
        action, kafka = asked.get("action"), self._kafka
        if action in ("kill", "stop", "start", "pause", "resume"):
            getattr(kafka.broker(asked.get("broker", 0)), action)()
        elif action == "partition":
            cut = kafka.broker(asked.get("broker", 0)).id
            others = {broker.id for broker in kafka.brokers} - {cut}
            kafka.brokers.partition({cut}, others, zookeeper=others)
        elif action == "heal":
            kafka.brokers.heal()
        elif action == "advance":
            kafka.clock.advance(seconds=require_number("seconds", asked.get("seconds")))
        else:
            raise InvalidArgument(f"there is no action {action!r}, only {_ACTIONS}")

    def close(self) -> None:
        self._tails.close()
        self._recorder.stop()


class ExternalSource:
    """A cluster elsewhere: it can be looked at, and not acted on."""

    def __init__(self, make_view: Callable[[], ClientView]) -> None:
        self._view = make_view()
        self._view.metadata()  # raises at once if no broker answers
        self._tails = _Tails(make_view)
        self._started = now_ms()

    def document(self) -> Json:
        timeline = {
            "started": self._started,
            "ended": now_ms(),
            "events": [],
            "changes": [],
            "spans": [],
            "throughput": [],
            "lag": {},
        }
        state = external_state(self._view)
        return {
            "title": "embedkafka",
            "bootstrap": self._view.bootstrap_servers,
            "clusters": [{"label": "external", "timeline": timeline, "state": state}],
        }

    def records(self, topic: str, schema: object) -> Json:
        return self._tails.records(topic, schema)

    def act(self, asked: Any) -> None:
        raise EmbedKafkaError("this cluster is not embedded: its brokers are out of reach")

    def close(self) -> None:
        self._tails.close()


def _bootstrap(kafka: "EmbeddedKafka") -> str:
    try:
        return kafka.bootstrap_servers
    except EmbedKafkaError:
        return "no broker runs"
