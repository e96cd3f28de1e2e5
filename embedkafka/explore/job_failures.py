"""What a job raised, without what Spark and py4j put around it."""

import re
import traceback
from typing import Final

from embedkafka.spark.report import clean_exception

_WRAPPERS: Final = frozenset({"pyspark", "py4j"})
_STATE: Final = re.compile(r"\s*SQLSTATE: \w+")


class JobFailed(Exception):
    """The job raised under a schedule; the message is what it raised, as its author knows it."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(cause_text(error))


def cause_text(error: BaseException) -> str:
    """The traceback of the job's own code, or Spark's message if Spark refused the job."""
    if type(error).__module__.partition(".")[0] in _WRAPPERS:
        return clean_exception(_STATE.sub("", str(error))).strip()
    return "".join(traceback.format_exception(error)).rstrip()
