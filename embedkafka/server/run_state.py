"""What a broker does as a whole, as Kafka's gauge BrokerState tells it."""

from enum import Enum


class RunState(Enum):
    """Kafka's states with their numbers."""

    NOT_RUNNING = 0
    STARTING = 1
    RECOVERY = 2
    """It starts, and checks logs after a shutdown that was not clean."""
    RUNNING = 3
    PENDING_CONTROLLED_SHUTDOWN = 6
    """It waits for the controller to move its leaders away."""
    SHUTTING_DOWN = 7
