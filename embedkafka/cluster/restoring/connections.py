"""The clients that are connected to a cluster, and those that a test has left connected.

A client is known by its id and software. Most name both in their first request; Java names its
software only after a login. One client may have several connections and opens further ones when it
needs them, so a client that was there before the test explains all connections of that name. A
broker that has not finished a client's request, or throttles it, does not notice that it leaves.

Owner: none; it reads what the brokers' processors have, and waits for them.
Not here: when it is asked for (`isolation`), and which fixtures may own a client (the pytest
plugin).
"""

import gc
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Final

from embedkafka.broker.broker import Broker
from embedkafka.broker.topics.auto_creation import Clients
from embedkafka.cluster.brokers import Brokers
from embedkafka.cluster.lifecycle.lifecycle import BrokerLifecycle
from embedkafka.cluster.request_log import is_own_client
from embedkafka.runtime.clock import REAL_TIME
from embedkafka.runtime.locks import leaf_condition
from embedkafka.runtime.values import NamedTuple
from embedkafka.wire.net.socket_server import Connection
from embedkafka.wire.protocol import codec
from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.client_software import UNKNOWN_SOFTWARE
from embedkafka.wire.protocol.errors import ProtocolError
from embedkafka.wire.protocol.headers import decode_request_header
from embedkafka.wire.protocol.messages.core import ApiVersionsRequest

_NOTICE_MS: Final = 50
"""How long a broker may take to notice that a client has left, before garbage is collected."""
_PATIENCE_MS: Final = 500
_ASK_AGAIN_MS: Final = 5
_JAVA: Final = "apache-kafka-java"


_Link = tuple[BrokerLifecycle, Broker | None, Connection]
"""A connection and its broker, which is None if it has ended."""
Find = Callable[[], Mapping[str, Connection]]
"""Finds the connections that there are now, by their ids."""


class Client(NamedTuple):
    """How a client introduces itself."""

    client_id: str
    software: str
    """Its name and version; empty if it has not said them."""

    def __str__(self) -> str:
        return f"client {self.client_id or '-'}" + (f" ({self.software})" if self.software else "")


def find_connections(brokers: Brokers, listener: str | None = None) -> dict[str, Connection]:
    """The connections of clients to the brokers that run, by their ids; perhaps of one listener."""
    return {
        connection.id: connection
        for handle in brokers.running()
        if not handle.is_paused  # it does not notice that a client has left
        for connection in handle.require_broker().client_connections()
        if listener in (None, connection.listener)
    }


def find_present(brokers: Brokers, listener: str | None = None) -> Clients:
    """The ids of clients that are connected, each with whether it may still be later.

    A client reconnects to a broker that has ended in between, so one of that id may be the same.
    If all brokers have ended, clients may be about to reconnect.
    """
    found: dict[str, list[_Link]] = {}
    for handle, broker, connection in [*_links(brokers), *_lost_links(brokers)]:
        client_id = _client_id(connection)
        if client_id is None or is_own_client(client_id):
            continue
        if listener in (None, connection.listener):
            found.setdefault(client_id, []).append((handle, broker, connection))

    def is_there(client_id: str) -> bool:
        links, now = found[client_id], {each.id: each for _, _, each in _links(brokers)}
        if any(connection.id in now for _, _, connection in links):
            return True
        return any(_has_ended(handle, broker) for handle, broker, _ in links) and any(
            client_id == _client_id(each) for each in now.values()
        )

    return {client_id: partial(is_there, client_id) for client_id in found}


def _links(brokers: Brokers) -> Iterator[_Link]:
    for handle in brokers.running():
        broker = handle.require_broker()
        for connection in broker.client_connections():
            yield handle, broker, connection


def _lost_links(brokers: Brokers) -> Iterator[_Link]:
    """If all brokers have ended since topics were last removed: the connections that they had."""
    handles = brokers.all()
    if any(handle.lost_connections is None for handle in handles):
        return
    for handle in handles:
        for connection in handle.lost_connections or ():
            yield handle, None, connection


def _has_ended(handle: BrokerLifecycle, broker: Broker | None) -> bool:
    incarnation = handle.incarnation
    return incarnation is None or incarnation.broker is not broker


def _client_id(connection: Connection) -> str | None:
    client = _introduced(connection)
    return None if client is None else client.client_id


def find_left_connected(find: Find, before: Mapping[str, Connection]) -> list[str]:
    """Says which clients have connected since `before` and still are.

    A client that is gone may be noticed a moment later: by its broker, or by Python, if its object
    is garbage in a cycle.
    """
    left = _await_leaving(find, before, _NOTICE_MS)
    if left:
        gc.collect()
        left = _await_leaving(find, before, _PATIENCE_MS)
    return [
        f"{client} is connected from {', '.join(sorted(addresses))}"
        for client, addresses in sorted(left.items())
    ]


def _await_leaving(
    find: Find, before: Mapping[str, Connection], patience_ms: int
) -> dict[Client, list[str]]:
    """The clients that are still there after so long."""
    deadline_ms = REAL_TIME.monotonic_ms() + patience_ms
    pause = leaf_condition("clients to leave")
    while left := _left(find(), before):
        now_ms = REAL_TIME.monotonic_ms()
        if now_ms > deadline_ms:
            return left
        with pause:
            REAL_TIME.wait_until(pause, now_ms + _ASK_AGAIN_MS)
    return {}


def _left(
    now: Mapping[str, Connection], before: Mapping[str, Connection]
) -> dict[Client, list[str]]:
    new = now.keys() - before.keys()
    if not new:
        return {}
    known = set(_clients(before.values()))
    found: dict[Client, list[str]] = {}
    for connection in map(now.__getitem__, new):
        if connection.may_have_left:
            continue
        for client in _clients([connection]):
            if client not in known:
                found.setdefault(client, []).append(connection.address)
    return found


def _clients(connections: Iterable[Connection]) -> Iterable[Client]:
    """Those of a test. A connection without a request may be one of ours that is about to send."""
    has_spark = "pyspark" in sys.modules  # its executors keep clients for the next query
    for connection in connections:
        client = _introduced(connection)
        if client is None or is_own_client(client.client_id):
            continue
        if has_spark and client.software.startswith(_JAVA):
            continue
        yield client


def _introduced(connection: Connection) -> Client | None:
    frame = connection.introduction
    if frame is None:
        return None
    is_known = connection.software != UNKNOWN_SOFTWARE
    software = " ".join(connection.software) if is_known else ""
    try:
        header, body = decode_request_header(frame)
        if header.api_key == ApiKey.API_VERSIONS and not is_known:
            asked = codec.decode(ApiVersionsRequest, header.api_version, body, surplus_allowed=True)
            software = f"{asked.client_software_name} {asked.client_software_version}".strip()
    except ProtocolError:
        return None  # not Kafka's protocol, or a version that the broker refuses
    return Client(header.client_id or "", software)
