"""Helpers for tests of Structured Streaming jobs.

    from embedkafka.spark import assert_delivered, audit, drain, latest_by_key

Each name below is imported when it is first used; PySpark is imported when it is called.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from embedkafka.spark.assertions import assert_stream, assert_topic_equals, latest_by_key
    from embedkafka.spark.delivery.audit import assert_delivered, audit
    from embedkafka.spark.queries import crash_between_write_and_commit, drain, restart
    from embedkafka.spark.report import progress
    from embedkafka.spark.scripts.inside import ScriptFailed
    from embedkafka.spark.scripts.running import RunningScript, run_script
    from embedkafka.spark.session import local_session
    from embedkafka.spark.triggers import immediate_triggers

_HOMES = {
    "RunningScript": "scripts.running",
    "ScriptFailed": "scripts.inside",
    "assert_delivered": "delivery.audit",
    "assert_stream": "assertions",
    "assert_topic_equals": "assertions",
    "audit": "delivery.audit",
    "crash_between_write_and_commit": "queries",
    "drain": "queries",
    "immediate_triggers": "triggers",
    "latest_by_key": "assertions",
    "local_session": "session",
    "progress": "report",
    "restart": "queries",
    "run_script": "scripts.running",
}

__all__ = [
    "RunningScript",
    "ScriptFailed",
    "assert_delivered",
    "assert_stream",
    "assert_topic_equals",
    "audit",
    "crash_between_write_and_commit",
    "drain",
    "immediate_triggers",
    "latest_by_key",
    "local_session",
    "progress",
    "restart",
    "run_script",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value
