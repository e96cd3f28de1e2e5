"""What a test holds of one topic: write to it, read from it, hand it to Spark."""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from embedkafka.cluster.clients import Bytes, Clients, Headers
from embedkafka.cluster.message import Message
from embedkafka.spark import frames

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


class Topic:
    """One topic of a running cluster. Made by `EmbeddedKafka.topic()`."""

    def __init__(self, name: str, bootstrap_servers: str, clients: Clients) -> None:
        self.name = name
        self.bootstrap_servers = bootstrap_servers
        self._clients = clients

    def __repr__(self) -> str:
        return f"Topic({self.name!r})"

    def send(
        self,
        value: Bytes,
        *,
        key: Bytes = None,
        partition: int | None = None,
        headers: Headers = (),
        timestamp_ms: int | None = None,
    ) -> Message:
        """Writes one record, waits for all in-sync replicas, and tells where it went.

        Text is written as UTF-8; None as value is a tombstone.
        """
        return self._clients.send(
            self.name,
            value,
            key=key,
            partition=partition,
            headers=headers,
            timestamp_ms=timestamp_ms,
        )

    def send_json(
        self,
        value: object,
        *,
        key: Bytes = None,
        partition: int | None = None,
        headers: Headers = (),
        timestamp_ms: int | None = None,
    ) -> Message:
        """`send` with the value as JSON."""
        return self.send(
            json.dumps(value),
            key=key,
            partition=partition,
            headers=headers,
            timestamp_ms=timestamp_ms,
        )

    def send_many(self, values: Iterable[Bytes]) -> list[Message]:
        """Writes many records without keys, in one go; much faster than `send` in a loop."""
        return self._clients.send_many(
            {"topic": self.name, "value": value.encode() if isinstance(value, str) else value}
            for value in values
        )

    def read(
        self,
        count: int | None = None,
        *,
        timeout_s: float = 10.0,
        isolation: str = "read_committed",
    ) -> list[Message]:
        """Every record that is there now; with `count`, waits until that many are there.

        Sorted by partition and offset.
        """
        enough = None if count is None else lambda messages: len(messages) >= count
        return self._clients.read(
            self.name, enough=enough, timeout_s=timeout_s, isolation=isolation
        )

    def read_json(self, count: int | None = None, *, timeout_s: float = 10.0) -> list[Any]:
        """The values of `read`, parsed as JSON."""
        return [message.json() for message in self.read(count, timeout_s=timeout_s)]

    def wait_for(
        self,
        condition: int | Callable[[list[Message]], bool],
        *,
        timeout_s: float = 30.0,
    ) -> list[Message]:
        """Reads on until there are so many records, or until `condition(records)` holds.

        Raises `AwaitTimeout` with what was seen.
        """
        if isinstance(condition, int):
            return self.read(condition, timeout_s=timeout_s)
        return self._clients.read(
            self.name, enough=condition, timeout_s=timeout_s, isolation="read_committed"
        )

    def spark_options(self, **options: str) -> dict[str, str]:
        """Options for Spark's `kafka` source, to read this topic from its start."""
        return {
            "kafka.bootstrap.servers": self.bootstrap_servers,
            "subscribe": self.name,
            "startingOffsets": "earliest",
            **options,
        }

    def write(self, df: "DataFrame", *, key: str | None = None) -> None:
        """Appends the rows of a DataFrame; `key` names the column that becomes the record's key.

        A row is a record as it is when it has a column `value`, else its JSON is the value.
        """
        frames.write_df(df, self.bootstrap_servers, self.name, key=key)

    def to_df(
        self,
        spark: "SparkSession",
        *,
        schema: "str | StructType | None" = None,
        binary: bool = False,
        options: Mapping[str, object] | None = None,
    ) -> "DataFrame":
        """All that is in the topic now, as a DataFrame with Kafka's columns.

        Keys and values are strings; with `schema` the value is a struct parsed from JSON; with
        `binary` both stay bytes.
        """
        return frames.topic_to_df(
            spark, self.bootstrap_servers, self.name, options, schema=schema, binary=binary
        )
