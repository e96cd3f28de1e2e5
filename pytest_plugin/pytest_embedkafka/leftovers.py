"""Stops the queries that a test body has left running, so that the next test is not disturbed.

Queries that fixtures started stay: their fixtures stop them.
Owner: pytest's thread.
"""

import logging
import shutil

from pytest_embedkafka.live import Live

_LOG = logging.getLogger(__name__)


def stop_leftovers(live: Live, what_to_do: str) -> None:
    """Stops them, unless they are to be kept; `live.complaint` says what the test should hear."""
    if live.queries is None:
        return
    left = [query for query in live.queries.since_mark() if query.isActive]
    if what_to_do != "keep":
        for query in left:
            try:
                query.stop()
            except Exception as error:  # Spark gave up waiting; the next test must run all the same
                _LOG.warning("query %s could not be stopped: %s", query.name or query.id, error)
    live.queries.forget_ended()
    if not left or what_to_do != "fail":
        return
    names = ", ".join(query.name or str(query.id) for query in left)
    count = "a query" if len(left) == 1 else f"{len(left)} queries"
    live.complaint = (
        f"the test left {count} running: {names}. Stop it with `query.stop()`, also when an "
        "assertion fails; or let the plugin stop it: --spark-leftovers=stop"
    )


def remove_checkpoints(live: Live, *, keep: bool) -> None:
    """Removes the test's checkpoints, or leaves them to who looks for the failure's cause."""
    checkpoints, live.checkpoints = live.checkpoints, []
    for path in [] if keep else checkpoints:
        shutil.rmtree(path, ignore_errors=True)
