"""The seams that every log of a broker shares."""

from random import Random

from embedkafka.broker.log.conversions import Conversions
from embedkafka.broker.log.files.record_ages import RecordAges
from embedkafka.runtime.clock import Clock
from embedkafka.runtime.files import Files
from embedkafka.runtime.scheduler import Scheduler
from embedkafka.runtime.values import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEnvironment:
    """Time, disk, background work and randomness, passed from the manager to every log.

    All logs count their `conversions` together.
    """

    clock: Clock
    files: Files
    scheduler: Scheduler
    random: Random
    ages: RecordAges
    conversions: Conversions = field(default_factory=Conversions)
