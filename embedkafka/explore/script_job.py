"""`Script`: a job for `explore` that is a script.

Each start of the job runs the script, with the topics and checkpoints of the schedule in place of
those that it names. It ends when `explore` stops the queries.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from embedkafka.explore.options import Options
from embedkafka.runtime.arguments import require_number
from embedkafka.runtime.failures import ConfigError
from embedkafka.runtime.values import dataclass, field
from embedkafka.spark.scripts.inside import ScriptInside
from embedkafka.spark.scripts.programs import require_program
from embedkafka.spark.scripts.redirections import Redirections
from embedkafka.spark.scripts.running import (
    RunningScript,
    require_arguments,
    require_environment,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STARTS: Final = ("startingtimestamp", "startingoffsetsbytimestamp")
_BY_TOPIC: Final = (
    "startingOffsets",
    "endingOffsets",
    "startingOffsetsByTimestamp",
    "endingOffsetsByTimestamp",
)


@dataclass(frozen=True, slots=True)
class Script:
    """A job that is a script: `explore(job=Script("jobs/totals.py"), ...)`.

    The topics that it names are the inputs and outputs of these names. A query that would begin at
    `latest` begins at `earliest`, for a schedule sends before it starts the job; triggers are the
    script's own.

    Args:
        script: a path to a file, the name of a module, or a function without arguments.
        args: its arguments, `sys.argv[1:]`.
        env: its environment variables, in addition to those of the process.
        timeout_s: how long it may take until it waits for its queries, in seconds of real time.
    """

    script: str | Path | Callable[[], object]
    args: Sequence[object] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = 60.0

    def __post_init__(self) -> None:
        require_program(self.script)
        require_arguments(self.args)
        require_environment(self.env)
        require_number("timeout_s", self.timeout_s, refusal=ConfigError)

    def __call__(self, spark: "SparkSession", options: Options) -> RunningScript:
        """Runs the script until it waits for its queries, or has ended.

        Args:
            spark: what its `getOrCreate()` returns.
            options: where its topics, checkpoints and relative paths lead.
        """
        redirections = Redirections(
            directory=Path(options.directory).resolve(),
            addresses=lambda _: options.bootstrap_servers,
            names=ScheduleNames(options),
        )
        inside = ScriptInside(
            require_program(self.script),
            lambda: spark,
            redirections,
            arguments=require_arguments(self.args),
            environment=require_environment(self.env),
        )
        running = RunningScript(inside, timeout_s=self.timeout_s, on_end=lambda: None)
        running.start()
        try:
            running.await_rest()
        except BaseException:
            running.abandon()
            raise
        return running


class ScheduleNames:
    """The names that a schedule has for topics and tables."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def source(self, options: Mapping[str, str], *, streaming: bool) -> dict[str, str]:
        changes: dict[str, str] = {}
        if "subscribe" in options:
            changes["subscribe"] = ",".join(map(self._topic, options["subscribe"].split(",")))
        if "assign" in options:
            changes["assign"] = self._by_topic(options["assign"])
        if "subscribepattern" in options:
            changes["subscribePattern"] = self._pattern(options["subscribepattern"])
        for name in _BY_TOPIC:
            if options.get(name.lower(), "").lstrip().startswith("{"):
                changes[name] = self._by_topic(options[name.lower()])
        begins = options.get("startingoffsets", "latest").lower()
        if streaming and begins == "latest" and not any(name in options for name in _STARTS):
            changes["startingOffsets"] = "earliest"
        return {**changes, **self._options.source}

    def sink(self, options: Mapping[str, str]) -> dict[str, str]:
        if "topic" not in options:
            raise ConfigError(
                "the script writes to the topic that each row names in its column `topic`, and "
                "explore cannot lead that to the topic of a schedule: give the sink the option "
                "`topic`, or give explore a function of `Options` as job"
            )
        return {"topic": self._topic(options["topic"])}

    def query(self, format: str, name: str) -> str:
        return self._options.table(name) if format == "memory" else name

    def _topic(self, name: str) -> str:
        return self._options.topic(name.strip())

    def _by_topic(self, text: str) -> str:
        return json.dumps({self._topic(name): value for name, value in json.loads(text).items()})

    def _pattern(self, pattern: str) -> str:
        matching = [
            there for name, there in self._options.topics.items() if re.fullmatch(pattern, name)
        ]
        if not matching:
            raise ConfigError(
                f"the script subscribes to {pattern!r}, which matches neither an input nor an "
                f"output; there are {', '.join(self._options.topics)}"
            )
        return "|".join(name.replace(".", "\\.") for name in matching)
