"""How soon a broker's thread gets its turn while the test's own thread computes.

CPython lets a computing thread go on for 5 ms before another one may run, and every step of a
request waits for that turn: measured with `benchmarks/switch_interval.py`, an acknowledgement took
5.8 ms at p50 beside a computing thread, and 1.4 ms with an interval of 1 ms. So the interval is
shortened while a cluster runs, unless the program has chosen a shorter one itself.

Owner: `_lock` (leaf); the interval belongs to the process, so clusters share this state.
"""

import sys
from collections.abc import Callable

from embedkafka.runtime.locks import LEAF_RANK, ranked_lock

INTERVAL_S = 0.001

_lock = ranked_lock("switch interval", LEAF_RANK)
_clusters = 0
_before = 0.0


def shorten_interval() -> Callable[[], None]:
    """Shortens the interval, if this is the first cluster of the process.

    The function returned puts it back when the last cluster has called it, unless somebody else
    has changed the interval meanwhile. Calling it again does nothing.
    """
    global _clusters, _before
    with _lock:
        _clusters += 1
        if _clusters == 1:
            _before = sys.getswitchinterval()
            sys.setswitchinterval(min(_before, INTERVAL_S))
    pending = [True]

    def put_back() -> None:
        global _clusters
        with _lock:
            if not pending:
                return
            pending.clear()
            _clusters -= 1
            if _clusters == 0 and sys.getswitchinterval() == min(_before, INTERVAL_S):
                sys.setswitchinterval(_before)

    return put_back
