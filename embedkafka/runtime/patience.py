"""One factor for all timeouts of tests, for machines slower than the one they were written on.

Not here: timeouts that clients, brokers and Spark have of their own.
"""

import math
import os
from typing import Final

from embedkafka.runtime.arguments import shown
from embedkafka.runtime.failures import ConfigError

VARIABLE: Final = "EMBEDKAFKA_PATIENCE"


def patient(timeout_s: float) -> float:
    """The seconds to wait where a test said `timeout_s`, or took the default.

    Raises:
        ConfigError: the variable is not a number.
    """
    given = os.environ.get(VARIABLE) or "1"
    try:
        factor = float(given)
    except ValueError:
        factor = 0
    if not 0 < factor < math.inf:
        raise ConfigError(f"{VARIABLE} must be a number above 0, such as 3, got {shown(given)}")
    return timeout_s * factor
