"""`Options`: where a job reads, writes and keeps its checkpoints.

`explore` passes one to the job for each start. A program passes its own, so that the same function
runs in production: this module needs nothing of Kafka or Spark, and any object with the methods
that a job calls will do.
"""

from collections.abc import Mapping
from typing import Any, Final

from embedkafka.runtime.arguments import require_int, require_text
from embedkafka.runtime.failures import ConfigError
from embedkafka.runtime.values import dataclass, field, replace

_BOOTSTRAP: Final = "kafka.bootstrap.servers"


def _at_once() -> dict[str, str]:
    """Spark's own default, which `trigger()` does not accept as no argument."""
    return {"processingTime": "0 seconds"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Names and options that differ between a test and production.

        spark.readStream.format("kafka").options(**options.read("orders")).load()
        frame.writeStream.format("kafka").options(**options.sink("revenue")).trigger(
            **options.trigger
        )

    Args:
        bootstrap_servers: the brokers, `host:port,...`.
        directory: holds checkpoints and files.
        topics: the name in Kafka of each topic that has another name in the job.
        trigger: the arguments of `DataStreamWriter.trigger`; by default batches follow each other.
        source: more options of the `kafka` source, such as `maxOffsetsPerTrigger`.
        suffix: is appended to the names of tables in memory.
    """

    bootstrap_servers: str
    directory: str
    topics: Mapping[str, str] = field(default_factory=dict)
    trigger: Mapping[str, Any] = field(default_factory=_at_once)  # Any: one argument of many types
    source: Mapping[str, str] = field(default_factory=dict)
    suffix: str = ""

    def topic(self, name: str) -> str:
        """The topic's name in Kafka.

        Args:
            name: its name in the job.
        """
        _name(name)
        if self.topics and name not in self.topics:
            raise ConfigError(
                f"the job asks for the topic {name!r}, which is neither an input nor an output "
                f"in a topic; there are {', '.join(self.topics)}"
            )
        return self.topics.get(name, name)

    def read(self, name: str, **options: str) -> dict[str, str]:
        """Options of the `kafka` source, to read a topic from its first record.

        Args:
            name: the topic's name in the job.
            **options: more options of the source, or other values for these.
        """
        return {
            _BOOTSTRAP: self.bootstrap_servers,
            "subscribe": self.topic(name),
            "startingOffsets": "earliest",
            **self.source,
            **options,
        }

    def sink(self, name: str, **options: str) -> dict[str, str]:
        """Options of the `kafka` sink, with a checkpoint of the same name.

        Args:
            name: the topic's name in the job.
            **options: more options of the sink, or other values for these.
        """
        return {
            _BOOTSTRAP: self.bootstrap_servers,
            "topic": self.topic(name),
            "checkpointLocation": self.checkpoint(name),
            **options,
        }

    def checkpoint(self, name: str = "query") -> str:
        """The `checkpointLocation` of a query.

        Args:
            name: tells the queries of a job apart.
        """
        return f"{self.directory}/checkpoints/{_name(name)}"

    def path(self, name: str) -> str:
        """A file or directory for the job's output.

        Args:
            name: tells the outputs of a job apart.
        """
        return f"{self.directory}/{_name(name)}"

    def table(self, name: str) -> str:
        """The `queryName` of a query into a table in memory, or the name of a table in a catalog.

        Args:
            name: tells the tables of a job apart; with the catalog, if there is one.
        """
        return f"{_name(name)}{self.suffix}"

    def limited(self, records: int) -> "Options":
        """The same options, with batches of at most so many records of each topic.

        Args:
            records: `maxOffsetsPerTrigger`.
        """
        require_int("records", records, least=1, refusal=ConfigError)
        return replace(self, source={**self.source, "maxOffsetsPerTrigger": str(records)})


def _name(name: object) -> str:
    return require_text("name", name, refusal=ConfigError)
