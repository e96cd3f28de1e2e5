"""Chaos for a streaming job: does its result depend on when things happen?

    from embedkafka.explore import Input, explore, latest_by_key

Each name below is imported when it is first used; PySpark is imported when it is called.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from embedkafka.explore.exploration import explore as explore
    from embedkafka.explore.explored import Explored as Explored
    from embedkafka.explore.inputs import Input as Input
    from embedkafka.explore.options import Options as Options
    from embedkafka.explore.outputs import all_records as all_records
    from embedkafka.explore.outputs import delta as delta
    from embedkafka.explore.outputs import files as files
    from embedkafka.explore.outputs import iceberg as iceberg
    from embedkafka.explore.outputs import latest_by as latest_by
    from embedkafka.explore.outputs import latest_by_key as latest_by_key
    from embedkafka.explore.outputs import rows as rows
    from embedkafka.explore.outputs import table as table
    from embedkafka.explore.refutation import Refuted as Refuted
    from embedkafka.explore.script_job import Script as Script

_HOMES = {
    "Explored": "explored",
    "Input": "inputs",
    "Options": "options",
    "Refuted": "refutation",
    "Script": "script_job",
    "all_records": "outputs",
    "delta": "outputs",
    "explore": "exploration",
    "files": "outputs",
    "iceberg": "outputs",
    "latest_by": "outputs",
    "latest_by_key": "outputs",
    "rows": "outputs",
    "table": "outputs",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value
