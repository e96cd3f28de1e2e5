"""What a group's shard decides: besides answers and appends (`coordinator.decision`), timers."""

from enum import Enum
from typing import NamedTuple

from embedkafka.coordinator import decision


class TimerKind(Enum):
    """What happens when the timer fires."""

    SESSION = "session"  # a member, or a pending one, has been silent
    JOIN = "join"  # the rebalance, or its initial delay, is over
    SYNC = "sync"  # members that joined have not synced
    CONSUMER_SESSION = "consumer-session"
    CONSUMER_REBALANCE = "consumer-rebalance"  # it has not given up what it was asked to
    CONSUMER_JOIN = "consumer-join"  # a classic member of a consumer group has not joined again
    CONSUMER_SYNC = "consumer-sync"  # it has joined, and not synced


class TimerKey(NamedTuple):
    """Names a timer; setting a timer replaces the one of the same key."""

    kind: TimerKind
    group_id: str
    member_id: str = ""


class SetTimer(NamedTuple):
    """Starts a timer, anew unless `if_absent`, which leaves a running one alone."""

    key: TimerKey
    delay_ms: int
    if_absent: bool = False


class CancelTimer(NamedTuple):
    key: TimerKey


TimerChange = SetTimer | CancelTimer
Decision = decision.Decision[TimerChange]
Decisions = decision.Decisions[TimerChange]
