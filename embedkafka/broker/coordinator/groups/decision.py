"""Decisions of a group shard: answers, appends, and timers as effects."""

from enum import Enum

from embedkafka.broker.coordinator import decision
from embedkafka.runtime.values import NamedTuple


class TimerKind(Enum):
    """What happens when the timer fires."""

    SESSION = "session"  # a member, or a pending one, was silent for too long
    JOIN = "join"  # the rebalance, or its initial delay, is over
    SYNC = "sync"  # members that joined have not synced
    CONSUMER_SESSION = "consumer-session"
    CONSUMER_REBALANCE = "consumer-rebalance"  # a member has not given up its partitions
    CONSUMER_JOIN = "consumer-join"  # a classic member of a consumer group has not rejoined
    CONSUMER_SYNC = "consumer-sync"  # a classic member of a consumer group has not synced


class TimerKey(NamedTuple):
    """Names a timer; setting a timer replaces the one of the same key."""

    kind: TimerKind
    group_id: str
    member_id: str = ""


class SetTimer(NamedTuple):
    """Starts or restarts a timer; with `if_absent` a running one goes on."""

    key: TimerKey
    delay_ms: int
    if_absent: bool = False


class CancelTimer(NamedTuple):
    key: TimerKey


TimerChange = SetTimer | CancelTimer
Decision = decision.Decision[TimerChange]
Decisions = decision.Decisions[TimerChange]
Sequel = decision.Sequel[TimerChange]
