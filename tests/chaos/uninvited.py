"""Clients that write nothing.

They ask for topics that are gone, for what they may not do, or how the cluster is.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, Final

from embedkafka import ClusterClosed, EmbeddedKafka, EmbedKafkaError, InvalidArgument
from embedkafka.broker.api_table import SERVED
from embedkafka.broker.settings.listeners import CONTROL_LISTENER
from embedkafka.runtime.clock import SystemClock
from embedkafka.security.sasl.logins import plain_login
from embedkafka.wire.net.client import BrokerClient
from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.messages.core import MetadataRequest
from tests.chaos.clients import Client
from tests.chaos.wire import METADATA_VERSION, Wire
from tests.cluster.broker_requests import AUTHORIZER, REQUESTS
from tests.wire.probes import PROBES, codes

if TYPE_CHECKING:
    from tests.chaos.clusters import InProcess
    from tests.chaos.world import World

OUTSIDE: Final = "OUTSIDE"
USER: Final = "mallory"
PASSWORD: Final = "m-secret"
PAUSE_S: Final = 0.02
CALL_MS: Final = 1_000

SETTINGS: Final[dict[str, object]] = {
    **AUTHORIZER,
    "super.users": "User:ANONYMOUS",  # all other clients of a round, and brokers
    "listeners": f"PLAINTEXT://:0,{OUTSIDE}://:0",
    "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{OUTSIDE}:SASL_PLAINTEXT",
    f"listener.name.{OUTSIDE.lower()}.sasl.enabled.mechanisms": "PLAIN",
    f"listener.name.{OUTSIDE.lower()}.plain.sasl.jaas.config": (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'user_{USER}="{PASSWORD}";'
    ),
}
"""The cluster has a listener for strangers, beside those of the other clients and the brokers."""

OF_CLIENTS: Final = {api: probe for api, probe in PROBES.items() if probe.refused}


class Visitor(Client):
    """Asks for all topics again and again, on new connections, and would create missing ones."""

    def __init__(self, world: "World", topics: Sequence[str], rng: Random) -> None:
        super().__init__(world, "visitor", rng)
        topics_asked = [MetadataRequest.Topic(name=topic) for topic in topics]
        self._request = MetadataRequest(topics=topics_asked, allow_auto_topic_creation=True)

    def _take_turn(self) -> None:
        self._ended.wait(PAUSE_S)
        wire = Wire(self._world.bootstrap, "visitor")
        try:
            wire.ask_any(self._request, METADATA_VERSION)
        except OSError:
            pass  # no broker is there now
        finally:
            wire.close()


QUESTIONS: Final[Sequence[Callable[[EmbeddedKafka], object]]] = (
    lambda kafka: kafka.metrics().prometheus(),
    lambda kafka: kafka.controller_events(),
    lambda kafka: kafka.state_changes(replicas=True),
    lambda kafka: kafka.waiting(),
    lambda kafka: kafka.existing_topic("orders").explain(),
    lambda kafka: kafka.existing_topic("orders").followers(),
    lambda kafka: kafka.report(),
    repr,
)


class Onlooker(Client):
    """A thread of the test that looks on: each question has an answer, whatever happens.

    It may be refused only while there is no such topic, or no cluster.
    """

    def __init__(self, world: "World", cluster: "InProcess", rng: Random) -> None:
        super().__init__(world, "onlooker", rng)
        self._cluster = cluster

    def _take_turn(self) -> None:
        self._ended.wait(PAUSE_S)
        kafka = self._cluster.kafka
        try:
            self._rng.choice(QUESTIONS)(kafka)
        except (InvalidArgument, ClusterClosed):
            pass
        except Exception:
            if kafka._require_brokers().is_closed:
                return
            raise


class Intruder(Client):
    """A user without rights, who tries every request on every listener.

    Complains about every answer without an error.
    """

    def __init__(self, world: "World", cluster: "InProcess", rng: Random) -> None:
        super().__init__(world, "intruder", rng)
        self._cluster = cluster

    def _take_turn(self) -> None:
        self._ended.wait(PAUSE_S)
        if self._rng.random() < 0.5:
            api = self._rng.choice(list(OF_CLIENTS))
            probe = OF_CLIENTS[api]
            self._try(OUTSIDE, api, probe.request, probe.version)
        else:
            api = self._rng.choice(list(REQUESTS))
            self._try(CONTROL_LISTENER, api, REQUESTS[api], SERVED[api].versions[1])

    def _try(self, listener: str, api: ApiKey, request: object, version: int) -> None:
        try:
            answer = self._ask(listener, request, version)
        except (OSError, EmbedKafkaError):  # the login fails, or the broker is not there
            return
        if not codes(answer) and not self._ended.is_set():
            self._world.complain(f"{USER} sends {api.name} on {listener}, and gets {answer}")

    def _ask(self, listener: str, request: object, version: int) -> Any:  # Any: wire
        running = self._cluster.kafka._require_brokers().running()
        if not running:
            raise OSError("no broker runs")
        broker = self._rng.choice(running).require_broker()
        client = BrokerClient(
            "127.0.0.1",
            broker.bound.port(listener),
            SystemClock(),
            USER,
            new_login=lambda host: plain_login(USER, PASSWORD),
        )
        try:
            return client.call(request, version, timeout_ms=CALL_MS)
        finally:
            client.close()
