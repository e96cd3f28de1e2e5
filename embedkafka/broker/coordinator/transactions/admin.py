"""Transactions as DescribeTransactions and ListTransactions show them."""

import re
from typing import Final

from embedkafka.broker.coordinator.transactions.metadata import Transaction
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.wire.protocol.messages.transactions import (
    DescribeTransactionsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)

_NO_DURATION: Final = -1


def describe(transaction: Transaction) -> DescribeTransactionsResponse.Transaction:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(transaction.partitions):
        by_topic.setdefault(topic, []).append(partition)
    return DescribeTransactionsResponse.Transaction(
        transactional_id=transaction.transactional_id,
        transaction_state=transaction.state.label,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.start_timestamp_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=[
            DescribeTransactionsResponse.Transaction.Topic(topic=topic, partitions=partitions)
            for topic, partitions in by_topic.items()
        ],
    )


def describe_error(
    transactional_id: str, *, error: ErrorCode
) -> DescribeTransactionsResponse.Transaction:
    return DescribeTransactionsResponse.Transaction(
        error_code=error,
        transactional_id=transactional_id,
        transaction_state="",
        transaction_timeout_ms=0,
        transaction_start_time_ms=0,
        producer_id=0,
        producer_epoch=0,
        topics=[],
    )


def listed(transaction: Transaction) -> ListTransactionsResponse.Transaction:
    return ListTransactionsResponse.Transaction(
        transactional_id=transaction.transactional_id,
        producer_id=transaction.producer_id,
        transaction_state=transaction.state.label,
    )


def find_pattern(request: ListTransactionsRequest) -> re.Pattern[str] | None:
    """The pattern that whole ids must match. Raises ApiError if it is not valid."""
    text = request.transactional_id_pattern
    if not text:
        return None
    from embedkafka.broker.coordinator.re2 import (  # few requests have one
        InvalidExpression,
        compile_re2,
    )

    try:
        return compile_re2(text)
    except InvalidExpression as error:
        raise ApiError(ErrorCode.INVALID_REGULAR_EXPRESSION) from error


def is_listed(
    transaction: Transaction,
    request: ListTransactionsRequest,
    *,
    pattern: re.Pattern[str] | None,
    now_ms: int,
) -> bool:
    """Whether the transaction passes every filter; an empty filter lets all pass."""
    if request.producer_id_filters and transaction.producer_id not in request.producer_id_filters:
        return False
    if request.state_filters and transaction.state.label not in request.state_filters:
        return False
    duration_ms = now_ms - transaction.start_timestamp_ms
    if request.duration_filter > _NO_DURATION and duration_ms <= request.duration_filter:
        return False
    return pattern is None or pattern.fullmatch(transaction.transactional_id) is not None
