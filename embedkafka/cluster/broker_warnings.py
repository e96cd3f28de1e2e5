"""The last warnings and errors that brokers have logged, for reports.

Owner: `_logged`, a deque that any thread may append to and copy.
Invariants: costs nothing until a broker warns. Output is as without it: if the program has no
handler for logs, Python's last resort still prints them.
Not here: which of several clusters of one process a warning is from; only the thread is known.
"""

import logging
from collections import deque
from collections.abc import Callable
from typing import Final

from embedkafka.runtime.values import NamedTuple

_KEPT: Final = 200
_LOGGER: Final = "embedkafka"


class LoggedWarning(NamedTuple):
    """One line of log, and the place among the cluster's requests where it was written."""

    number: int
    text: str


class BrokerWarnings(logging.Handler):
    """Collects from `start` to `stop`; `number` places a line among the requests."""

    def __init__(self, number: Callable[[], int]) -> None:
        super().__init__(logging.WARNING)
        self._number = number
        self._logged: deque[LoggedWarning] = deque(maxlen=_KEPT)

    def start(self) -> None:
        logging.getLogger(_LOGGER).addHandler(self)

    def stop(self) -> None:
        logging.getLogger(_LOGGER).removeHandler(self)

    def since(self, number: int) -> list[str]:
        """What was logged after that place."""
        return [logged.text for logged in self._logged.copy() if logged.number > number]

    def emit(self, record: logging.LogRecord) -> None:
        text = f"{record.threadName}  {record.levelname}  {record.getMessage()}"
        self._logged.append(LoggedWarning(self._number(), text))
        if logging.lastResort is not None and not logging.getLogger().handlers:
            logging.lastResort.handle(record)
