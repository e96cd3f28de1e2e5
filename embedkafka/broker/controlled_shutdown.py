"""Controlled shutdown: the controller moves a broker's leaders away before it stops.

Invariants: the broker asks up to `controlled.shutdown.max.retries` times, whether the controller
refuses, cannot be reached, or leaves partitions behind. Then it stops anyway.
Not here: moving leaders (`controller`), and stopping (`broker`).
"""

import logging
from collections.abc import Callable

from embedkafka.broker.settings.broker import BrokerConfig
from embedkafka.runtime.clock import Clock
from embedkafka.runtime.locks import LEAF_RANK, leaf_condition, ranked_lock
from embedkafka.runtime.values import dataclass
from embedkafka.wire.net.client import BrokerClient
from embedkafka.wire.protocol.errors import ErrorCode, ProtocolError
from embedkafka.wire.protocol.messages.brokers import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from embedkafka.zk.kafka_zk import KafkaZk
from embedkafka.zk.payloads import BrokerEndpoint
from embedkafka.zk.store import ZkError

_LOG = logging.getLogger(__name__)

_VERSION = 3

Connect = Callable[[BrokerEndpoint], BrokerClient]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShutdownPolicy:
    """How many attempts, and the wait between them."""

    max_retries: int
    retry_backoff_ms: int

    @classmethod
    def of(cls, config: BrokerConfig) -> "ShutdownPolicy":
        return cls(
            max_retries=config.integer("controlled.shutdown.max.retries"),
            retry_backoff_ms=config.integer("controlled.shutdown.retry.backoff.ms"),
        )


def leave_cluster(
    request: ControlledShutdownRequest,
    *,
    zk: KafkaZk,
    connect: Connect,
    listener: str,
    clock: Clock,
    policy: ShutdownPolicy,
) -> bool:
    """Asks the controller to move leaders away; True once the broker leads nothing."""
    for attempt in range(policy.max_retries):
        if attempt:
            _back_off(clock, policy.retry_backoff_ms)
        try:
            if _ask(request, zk, connect, listener):
                return True
        except (OSError, ProtocolError, ZkError) as error:
            _LOG.info(
                "broker %d cannot reach the controller to leave: %r", request.broker_id, error
            )
    _LOG.warning("broker %d stops although it may still lead partitions", request.broker_id)
    return False


def _ask(request: ControlledShutdownRequest, zk: KafkaZk, connect: Connect, listener: str) -> bool:
    call = _ShutdownCall()
    controller = zk.watch_controller(call.hang_up)
    info = None if controller is None else zk.find_broker(controller)
    if info is None:
        return False
    response = call.make(connect(info.endpoint(listener)), request)
    if response.error_code == ErrorCode.NONE and not response.remaining_partitions:
        return True
    _LOG.info(
        "controller %d keeps leaders on broker %d: %s", controller, request.broker_id, response
    )
    return False


class _ShutdownCall:
    """One call, abandoned when another controller is elected, for this one will not answer."""

    def __init__(self) -> None:
        self._lock = ranked_lock("controlled shutdown", LEAF_RANK)
        self._client: BrokerClient | None = None
        self._in_vain = False

    def make(
        self, client: BrokerClient, request: ControlledShutdownRequest
    ) -> ControlledShutdownResponse:
        with self._lock:
            self._client = client
            in_vain = self._in_vain
        if in_vain:
            client.close()
        try:
            response: ControlledShutdownResponse = client.call(request, _VERSION)
            return response
        finally:
            client.close()

    def hang_up(self, _: object) -> None:
        with self._lock:
            self._in_vain = True
            client = self._client
        if client is not None:
            client.close()


def _back_off(clock: Clock, backoff_ms: float) -> None:
    done = leaf_condition("back-off")
    deadline_ms = clock.monotonic_ms() + backoff_ms
    with done:
        while clock.wait_until(done, deadline_ms):
            continue
