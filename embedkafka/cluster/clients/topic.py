"""`Topic`: one topic as a test holds it, to write to, read from and hand to Spark."""

import json
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from embedkafka.cluster.clients.clients import Bytes, Clients, Headers
from embedkafka.cluster.clients.decoding import Decode
from embedkafka.cluster.clients.message import Message
from embedkafka.runtime.arguments import require_attribute
from embedkafka.runtime.failures import InvalidArgument
from embedkafka.runtime.ids import TopicPartition
from embedkafka.spark import frames

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from embedkafka.cluster.clients.positions import From
    from embedkafka.cluster.cluster_state import PartitionStatus


class Topic:
    """A topic of a running cluster. `EmbeddedKafka.topic()` and `existing_topic()` return it.

        orders = kafka.topic("orders", partitions=3)
        orders.send("hello", key="k")
        assert orders.read(1)[0].text == "hello"

    Once the cluster is closed, every method raises `ClusterClosed`. Arguments of the wrong kind
    raise `InvalidArgument`.
    """

    def __init__(self, name: str, bootstrap_servers: str, clients: Clients) -> None:
        self._name = name
        self._bootstrap_servers = bootstrap_servers
        self._clients = clients

    def __repr__(self) -> str:
        return f"Topic({self.name!r})"

    @property
    def name(self) -> str:
        """The topic's name in the cluster."""
        return self._name

    @property
    def decode(self) -> Decode | None:
        """The function that decodes the topic's values; None if it has none."""
        return self._clients.decoders.find(self.name)

    @property
    def bootstrap_servers(self) -> str:
        """The brokers' addresses, `host:port,...`, at the time this handle was made."""
        return self._bootstrap_servers

    def send(
        self,
        value: Bytes,
        *,
        key: Bytes = None,
        partition: int | None = None,
        headers: Headers = (),
        timestamp_ms: int | None = None,
    ) -> Message:
        """Writes one record and waits until all in-sync replicas have it.

        Args:
            value: text (written as UTF-8), bytes, or None for a tombstone.
            key: text, bytes or None. Records with the same key go to the same partition.
            partition: the partition to write to; chosen by the key if None.
            headers: a mapping or a list of pairs, from names to text, bytes or None.
            timestamp_ms: the record's time, in milliseconds since 1970; now if None.

        Returns:
            The record with its partition and offset.

        Raises:
            AwaitTimeout: there was no acknowledgement for 30 seconds.
            EmbedKafkaError: the brokers refused the record.
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
        """Writes one record with its value as JSON; otherwise like `send`.

        Args:
            value: anything that `json.dumps` takes.
            key: as for `send`.
            partition: as for `send`.
            headers: as for `send`.
            timestamp_ms: as for `send`.

        Raises:
            InvalidArgument: `value` cannot be written as JSON.
        """
        try:
            text = json.dumps(value)
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidArgument(f"the value cannot be written as JSON: {error}") from error
        return self.send(
            text,
            key=key,
            partition=partition,
            headers=headers,
            timestamp_ms=timestamp_ms,
        )

    def send_many(
        self,
        values: Iterable[Bytes],
        *,
        keys: Iterable[Bytes] | None = None,
        headers: Iterable[Headers] | None = None,
        partitions: Iterable[int] | None = None,
    ) -> list[Message]:
        """Writes many records. This is much faster than `send` in a loop.

            orders.send_many(["a", "b"], keys=["1", "2"])

        Args:
            values: text, bytes or None for each record.
            keys: a key for each record; none have keys by default.
            headers: the headers of each record, as for `send`.
            partitions: the partition of each record; chosen by the keys by default.

        Returns:
            The records with their partitions and offsets, in the order of acknowledgement.

        Raises:
            AwaitTimeout: some records were not acknowledged within 30 seconds.
            InvalidArgument: there are not as many keys, headers or partitions as values.
            EmbedKafkaError: the brokers refused a record; others may have been written.
        """
        return self._clients.send_values(
            self.name, values, keys=keys, headers=headers, partitions=partitions
        )

    def read(
        self,
        count: int | None = None,
        *,
        timeout_s: float = 10.0,
        isolation: str = "read_committed",
        from_: "From | None" = None,
    ) -> list[Message]:
        """Reads from the start: every record that is there now, or `count` records at least.

        This joins no group and commits nothing: a second `read` returns the same records.

        Args:
            count: how many records to wait for; None does not wait.
            timeout_s: how long to wait, in seconds of real time. What is there now is read
                however short it is.
            isolation: "read_committed", or "read_uncommitted" to see open and aborted
                transactions too.
            from_: where to begin instead: an offset, offsets by partition such as `{0: 5}`, or a
                `datetime` with its time zone.

        Returns:
            The records, sorted by partition and offset.

        Raises:
            AwaitTimeout: there were fewer than `count` records in that time.
            QueryFailed: as for `wait_for`.
            EmbedKafkaError: the topic does not exist, or cannot be read.
        """
        return self._clients.read(
            self.name, count, timeout_s=timeout_s, isolation=isolation, from_=from_
        )

    def follow(
        self,
        *,
        timeout_s: float = 30.0,
        isolation: str = "read_committed",
        from_: "From | None" = None,
    ) -> Generator[Message, None, None]:
        """The records as they come, from the start; leave the loop when you have seen enough.

            for message in orders.follow():
                if message.text == "done":
                    break

        Args:
            timeout_s: how long to wait for the next record, in seconds of real time.
            isolation: as for `read`.
            from_: as for `read`.

        Raises:
            AwaitTimeout: no record came in that time.
            EmbedKafkaError: the topic does not exist, or cannot be read.
        """
        return self._clients.follow(
            self.name, timeout_s=timeout_s, isolation=isolation, from_=from_
        )

    def read_json(self, count: int | None = None, *, timeout_s: float = 10.0) -> list[Any]:
        """The values of `read`, parsed as JSON; None for a tombstone.

        Args:
            count: as for `read`.
            timeout_s: as for `read`.

        Raises:
            UndecodableMessage: a value is not JSON.
            AwaitTimeout: as for `read`.
        """
        return [message.json() for message in self.read(count, timeout_s=timeout_s)]

    def wait_for(
        self,
        condition: int | Callable[[list[Message]], object],
        *,
        timeout_s: float = 30.0,
    ) -> list[Message]:
        """Reads from the start until `condition` holds, and returns the records.

            orders.wait_for(lambda records: any(r.text == "done" for r in records))

        It does not wait for a Spark query of this process that has failed. It blames a query whose
        sink is this topic, or, if it failed during the wait, one that does not tell where it
        writes (`foreachBatch`, Spark Connect), or a script whose failure the test has not seen, and
        only if no running query may write here.

        Args:
            condition: a number of records, or a function of the records so far, whose result
                must be truthy. It is first called when there are records, or none up to the
                end. Records that are deleted while it waits are left out from then on; for those
                that compaction removes, `await_compaction` and `read`.
            timeout_s: as for `read`.

        Raises:
            AwaitTimeout: the condition did not hold in that time. The message says how many
                records there were, and shows the last.
            QueryFailed: the query that should write them has failed; a kind of `AwaitTimeout`.
        """
        return self._clients.read(
            self.name, condition, timeout_s=timeout_s, isolation="read_committed"
        )

    def end_offsets(self) -> dict[int, int]:
        """The end of each partition, by its number: the offset that its next record gets.

        Records that not all in-sync replicas have yet do not count.

        Raises:
            InvalidArgument: there is no such topic.
        """
        view = self._clients.view()
        wanted = [TopicPartition(each.topic, each.partition) for each in view.statuses(self.name)]
        return {each.partition: end for each, end in sorted(view.ends(wanted).items())}

    def partitions(self) -> "list[PartitionStatus]":
        """Each partition with its leader and replicas; clients do not see the epoch, so it is -1.

        Raises:
            InvalidArgument: there is no such topic.
        """
        return self._clients.view().statuses(self.name)

    def spark_options(
        self, *, user: str | None = None, mechanism: str | None = None, **options: str
    ) -> dict[str, str]:
        """Options for Spark's `kafka` source, to read this topic from its first record.

        A fetch waits at most ten milliseconds for more records (`kafka.fetch.max.wait.ms`).

            spark.readStream.format("kafka").options(**orders.spark_options()).load()

        Args:
            user: whom Spark logs in as, on a secured cluster. Default: as this handle does.
            mechanism: how the user logs in, one of those in `Security`. Default: the first.
            **options: further options of the source, or other values for these.

        Raises:
            InvalidArgument: the credentials of this user are not known, or not for this mechanism.
        """
        return {
            **frames.PROMPT_READS,
            **self._clients.spark_options(self.bootstrap_servers, user, mechanism),
            "subscribe": self.name,
            "startingOffsets": "earliest",
            **options,
        }

    def sink_options(
        self, *, user: str | None = None, mechanism: str | None = None, **options: str
    ) -> dict[str, str]:
        """Options for Spark's `kafka` sink, to write to this topic.

            result.writeStream.format("kafka").options(**priced.sink_options(checkpointLocation=...))

        Args:
            user: whom Spark logs in as, on a secured cluster. Default: as this handle does.
            mechanism: how the user logs in, one of those in `Security`. Default: the first.
            **options: further options of the sink.

        Raises:
            InvalidArgument: the credentials of this user are not known, or not for this mechanism.
        """
        return {
            **self._clients.spark_options(self.bootstrap_servers, user, mechanism),
            "topic": self.name,
            **options,
        }

    def write(self, df: "DataFrame", *, key: str | None = None) -> None:
        """Appends the rows of a DataFrame to the topic.

        A column `value`, if there is one, is the record's value; otherwise each row is written as
        a JSON object.

        Args:
            df: a batch DataFrame.
            key: the column that becomes the record's key. Default: the column `key`, if any.

        Raises:
            ConfigError: there is no column `key`.
        """
        self._clients.require_open()
        require_attribute("df", df, "write", "a DataFrame")
        frames.write_df(
            df,
            self.bootstrap_servers,
            self.name,
            key=key,
            options=self._clients.spark_options(self.bootstrap_servers),
        )

    def to_df(
        self,
        spark: "SparkSession",
        *,
        schema: "str | StructType | None" = None,
        binary: bool = False,
        options: Mapping[str, object] | None = None,
    ) -> "DataFrame":
        """Everything in the topic now, as a DataFrame with the columns of Spark's Kafka source.

        Args:
            spark: the session; it must have the Kafka connector.
            schema: parses the value as JSON into a struct; text such as "id INT, name STRING" or a
                `StructType`. Without it, keys and values are strings.
            binary: leaves keys and values as bytes.
            options: further options of the source, such as `{"includeHeaders": True}`.
        """
        self._clients.require_open()
        require_attribute("spark", spark, "read", "a SparkSession")
        return frames.topic_to_df(
            spark,
            self.bootstrap_servers,
            self.name,
            {
                **frames.PROMPT_READS,
                **self._clients.spark_options(self.bootstrap_servers),
                **(options or {}),
            },
            schema=schema,
            binary=binary,
        )

    def stream(
        self,
        spark: "SparkSession",
        *,
        schema: "str | Mapping[str, object] | StructType | None" = None,
        format: str | None = None,
        key: str | None = None,
        headers: str | None = None,
        timestamp: str | None = None,
        options: Mapping[str, object] | None = None,
    ) -> "DataFrame":
        """The topic as a streaming DataFrame, with a column for each field of the value.

            clicks = topic.stream(spark, schema="user STRING, page STRING", timestamp="at")
            visits = clicks.withWatermark("at", "10 minutes").groupBy("user").count()

        Args:
            spark: the session; it must have the Kafka connector.
            schema: the fields: Spark's, as text or a `StructType`, for JSON; Avro's, as JSON text
                or a mapping, for Avro.
            format: "json" or "avro", with a schema; "text" or "binary", with one column `value`. By
                default JSON if there is a schema, and else text.
            key: the name of a column for the record's key; without it there is none.
            headers: the name of a column for the headers, an array of key and value.
            timestamp: the name of a column for the record's time.
            options: further options of the source, or other values for ours, which begin with the
                first record.

        Raises:
            ConfigError: the format is unknown or does not go with the schema, two columns would
                have one name, or the session has no Avro.
        """
        self._clients.require_open()
        require_attribute("spark", spark, "readStream", "a SparkSession")
        return frames.stream_columns(
            spark,
            self,
            schema=schema,
            format=format,
            key=key,
            headers=headers,
            timestamp=timestamp,
            options=options,
        )
