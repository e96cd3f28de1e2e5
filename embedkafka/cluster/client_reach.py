"""Reaches any cluster through clients, for a `Cluster` that is not embedded.

Owner: the caller's thread.
"""

from functools import cached_property
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from embedkafka.cluster.clients.client_admin import ClientAdmin, require_admin
from embedkafka.cluster.clients.clients import Clients
from embedkafka.cluster.clients.polled_state import PolledState
from embedkafka.cluster.handles.brokers import BrokerHandle
from embedkafka.runtime.arguments import require_text, shown
from embedkafka.runtime.failures import InvalidArgument
from embedkafka.runtime.temporary import TemporaryDirectory
from embedkafka.spark.client_settings import ClientSettings

if TYPE_CHECKING:
    from embedkafka.cluster.handles.reach import State, TopicRequests
    from embedkafka.cluster.waiting import Probe


class ClientReach:
    """Connects when it is first asked for the state."""

    def __init__(self, bootstrap_servers: str, settings: ClientSettings | None = None) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.clients = Clients(bootstrap_servers, settings=settings)
        self.rng = Random()
        self._settings = settings

    @cached_property
    def client(self) -> Any:
        """An admin client. Any: confluent-kafka has no types."""
        return require_admin(self.bootstrap_servers, self._settings)

    @cached_property
    def polled(self) -> PolledState:
        return PolledState(self.client, lambda address: require_admin(address, self._settings))

    @property
    def state(self) -> "State":
        return self.polled

    @property
    def admin(self) -> "TopicRequests":
        return ClientAdmin(self.client)

    @cached_property
    def _directory(self) -> TemporaryDirectory:
        return TemporaryDirectory()

    @property
    def scratch(self) -> Path:
        return self._directory.path

    def brokers(self) -> list[BrokerHandle]:
        return [
            BrokerHandle(broker_id, address, self)
            for broker_id, address in self.polled.addresses().items()
        ]

    def await_state(self, what: str, probe: "Probe", timeout_s: float) -> None:
        self.polled.await_state(what, probe, timeout_s)

    def settings_for(
        self, user: str | None, mechanism: str | None = None
    ) -> tuple[ClientSettings, str]:
        """What a client needs to connect as these clients do, and where."""
        if user is not None or mechanism is not None:
            raise InvalidArgument(
                f"the credentials of user {shown(user)} are not known here, only those of "
                "--kafka-client-config"
            )
        return self._settings or ClientSettings(), self.bootstrap_servers

    def new_name(self, name: str) -> str:
        return name

    def known_name(self, name: str) -> str:
        return require_text("name", name)

    def on_deletion(self, topic: str) -> None:
        self.clients.on_deletion(topic, had_other_leaders=False)

    def on_missing(self, noun: str, name: str) -> None:
        """Does nothing: an `AttributeError` follows."""

    def close(self) -> None:
        self.clients.close()
        if "_directory" in vars(self):
            self._directory.remove()
