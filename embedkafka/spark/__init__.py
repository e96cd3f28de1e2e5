"""Helpers for tests of Structured Streaming jobs.

    from embedkafka.spark import assert_delivered, audit, drain, latest_by_key

Each name below is imported when it is first used; PySpark is imported when it is called.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from embedkafka.spark.assertions import assert_stream as assert_stream
    from embedkafka.spark.assertions import assert_topic_equals as assert_topic_equals
    from embedkafka.spark.assertions import latest_by_key as latest_by_key
    from embedkafka.spark.delivery.audit import assert_delivered as assert_delivered
    from embedkafka.spark.delivery.audit import audit as audit
    from embedkafka.spark.pipelines import PipelineFailed as PipelineFailed
    from embedkafka.spark.pipelines import run_pipeline as run_pipeline
    from embedkafka.spark.queries import (
        crash_between_write_and_commit as crash_between_write_and_commit,
    )
    from embedkafka.spark.queries import drain as drain
    from embedkafka.spark.queries import restart as restart
    from embedkafka.spark.report import progress as progress
    from embedkafka.spark.scripts.inside import ScriptFailed as ScriptFailed
    from embedkafka.spark.scripts.running import RunningScript as RunningScript
    from embedkafka.spark.scripts.running import run_script as run_script
    from embedkafka.spark.session import local_session as local_session
    from embedkafka.spark.steps import AddRecords as AddRecords
    from embedkafka.spark.steps import AdvanceClock as AdvanceClock
    from embedkafka.spark.steps import CheckLatest as CheckLatest
    from embedkafka.spark.steps import CheckTopic as CheckTopic
    from embedkafka.spark.steps import Crash as Crash
    from embedkafka.spark.steps import Restart as Restart
    from embedkafka.spark.steps import check_stream as check_stream
    from embedkafka.spark.triggers import immediate_triggers as immediate_triggers

_HOMES = {
    "AddRecords": "steps",
    "AdvanceClock": "steps",
    "CheckLatest": "steps",
    "CheckTopic": "steps",
    "Crash": "steps",
    "Restart": "steps",
    "PipelineFailed": "pipelines",
    "RunningScript": "scripts.running",
    "ScriptFailed": "scripts.inside",
    "assert_delivered": "delivery.audit",
    "assert_stream": "assertions",
    "assert_topic_equals": "assertions",
    "audit": "delivery.audit",
    "check_stream": "steps",
    "crash_between_write_and_commit": "queries",
    "drain": "queries",
    "immediate_triggers": "triggers",
    "latest_by_key": "assertions",
    "local_session": "session",
    "progress": "report",
    "restart": "queries",
    "run_pipeline": "pipelines",
    "run_script": "scripts.running",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value
