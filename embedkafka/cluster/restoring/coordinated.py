"""The groups and transactional ids of a cluster, read from its coordinators and deleted there.

A coordinator's own thread answers each question, as it answers a request.

Owner: none; it asks the brokers and waits for them.
Not here: when they are deleted (`isolation`).
"""

import logging
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from embedkafka.broker.broker import Broker
from embedkafka.broker.coordinator.transactions.states import TxnState
from embedkafka.cluster.brokers import Brokers
from embedkafka.runtime.clock import REAL_TIME
from embedkafka.runtime.failures import AwaitTimeout
from embedkafka.runtime.locks import leaf_condition
from embedkafka.runtime.topic_names import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from embedkafka.runtime.values import dataclass, field
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.groups import ListGroupsRequest, ListGroupsResponse
from embedkafka.wire.protocol.messages.transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)

_LOG = logging.getLogger(__name__)

_PATIENCE_MS: Final = 10_000
_PAUSE_MS: Final = 2
_UNSETTLED: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)
"""Answers that will be others in a moment."""

A = TypeVar("A")


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinated:
    """Groups and transactional ids, each with Kafka's name of its state."""

    groups: Mapping[str, str] = field(default_factory=dict)
    transactions: Mapping[str, str] = field(default_factory=dict)

    @property
    def stable_groups(self) -> list[str]:
        """The groups whose members have their partitions.

        A consumer that is closed while it joins leaves a member behind that no one can help.
        """
        return sorted(name for name, state in self.groups.items() if state == "Stable")

    @property
    def open_transactions(self) -> list[str]:
        """Those that only their producer can end. Others end by themselves."""
        ongoing = TxnState.ONGOING.label
        return sorted(name for name, state in self.transactions.items() if state == ongoing)

    def without(self, other: "Coordinated") -> "Coordinated":
        """Those that the other has not."""
        return Coordinated(
            groups={n: state for n, state in self.groups.items() if n not in other.groups},
            transactions={
                name: state
                for name, state in self.transactions.items()
                if name not in other.transactions
            },
        )

    def with_all_of(self, other: "Coordinated") -> "Coordinated":
        return Coordinated(
            groups={**self.groups, **other.groups},
            transactions={**self.transactions, **other.transactions},
        )


def find_coordinated(brokers: Brokers) -> Coordinated:
    """All groups and transactional ids. A cluster that has never had any is not asked."""
    topics = brokers.zk.topics()
    groups: list[ListGroupsResponse] = []
    transactions: list[ListTransactionsResponse] = []
    if GROUP_METADATA_TOPIC in topics:
        groups = _ask_all(
            brokers,
            lambda broker, reply: broker.groups.list_groups(ListGroupsRequest(), reply),
            lambda answer: answer.error_code,
        )
    if TRANSACTION_STATE_TOPIC in topics:
        wanted = ListTransactionsRequest(state_filters=[], producer_id_filters=[])
        transactions = _ask_all(
            brokers,
            lambda broker, reply: broker.txns.list_transactions(wanted, reply),
            lambda answer: answer.error_code,
        )
    return Coordinated(
        groups={group.group_id: group.group_state for answer in groups for group in answer.groups},
        transactions={
            each.transactional_id: each.transaction_state
            for answer in transactions
            for each in answer.transaction_states
        },
    )


def forget_coordinated(brokers: Brokers, doomed: Coordinated) -> None:
    """Deletes `doomed`: aborts its open transactions, and takes the groups from their members."""
    for transactional_id in doomed.transactions:
        _delete(
            brokers,
            f"transactional id {transactional_id}",
            lambda broker, reply, name=transactional_id: broker.txns.forget(name, reply),  # type: ignore[misc]  # a default binds it
        )
    for group in doomed.groups:
        _delete(
            brokers,
            f"group {group}",
            lambda broker, reply, name=group: broker.groups.forget(name, reply),  # type: ignore[misc]  # a default binds it
        )


def _delete(
    brokers: Brokers, what: str, delete: Callable[[Broker, Callable[[ErrorCode], None]], None]
) -> None:
    """Asks every broker; those that do not coordinate it refuse."""
    answers = _ask_all(brokers, delete, lambda error: error)
    refusals = set(answers) - {ErrorCode.NOT_COORDINATOR, ErrorCode.GROUP_ID_NOT_FOUND}
    for error in refusals - {ErrorCode.NONE}:
        _LOG.warning("%s of the last test could not be deleted: %s", what, error.name)


def _ask_all(
    brokers: Brokers,
    ask: Callable[[Broker, Callable[[A], None]], None],
    error_of: Callable[[A], int],
) -> list[A]:
    """The answers of all brokers that run, when each is settled."""
    answers: list[A] = []
    answered = leaf_condition("answers of coordinators")
    deadline_ms = REAL_TIME.monotonic_ms() + _PATIENCE_MS
    for broker in brokers.within_reach():
        while True:
            got: list[A] = []

            def note(answer: A, got: list[A] = got) -> None:
                with answered:
                    got.append(answer)
                    answered.notify_all()

            ask(broker, note)
            with answered:
                while not got:
                    if not REAL_TIME.wait_until(answered, deadline_ms) and not got:
                        raise AwaitTimeout(f"the coordinators of broker {broker.id} do not answer")
            if ErrorCode(error_of(got[0])) not in _UNSETTLED:
                answers += got
                break
            if REAL_TIME.monotonic_ms() > deadline_ms:
                raise AwaitTimeout(f"the coordinators of broker {broker.id} do not settle")
            with answered:
                REAL_TIME.wait_until(answered, REAL_TIME.monotonic_ms() + _PAUSE_MS)
    return answers
