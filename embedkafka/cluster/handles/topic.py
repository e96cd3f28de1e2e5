"""`Topic`: one topic as a test holds it, to write to, read from and hand to Spark."""

import json
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from embedkafka.cluster.clients.clients import Bytes, Clients, Headers
from embedkafka.cluster.clients.decoding import Decode
from embedkafka.cluster.clients.message import Message
from embedkafka.cluster.waiting import PATIENCE_S
from embedkafka.runtime.arguments import (
    MAX_INT32,
    require_attribute,
    require_int,
    require_number,
)
from embedkafka.runtime.failures import InvalidArgument
from embedkafka.runtime.ids import TopicPartition
from embedkafka.spark import frames

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from embedkafka.cluster.clients.positions import From
    from embedkafka.cluster.cluster_state import PartitionStatus
    from embedkafka.cluster.handles.reach import ClusterReach


class Topic:
    """A topic of a running cluster. `kafka.topic()` and `kafka.existing_topic()` return it.

        orders = kafka.topic("orders", partitions=3)
        orders.send("hello", key="k")
        assert orders.read(1)[0].text == "hello"

    Once the cluster is closed, every method raises `ClusterClosed`. Arguments of the wrong kind
    raise `InvalidArgument`. Methods that ask for the topic's partitions raise it too if there is no
    such topic any more.
    """

    def __init__(self, name: str, reach: "ClusterReach") -> None:
        self._name = name
        self._reach = reach

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            __tracebackhide__ = True
            from embedkafka.cluster.handles.moved import refuse_missing

            refuse_missing(self, name, "topic")

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
        """The addresses of the running brokers, `host:port,...`.

        Raises:
            ClusterClosed: no broker is running.
        """
        return self._reach.bootstrap_servers

    @property
    def _clients(self) -> Clients:
        return self._reach.clients

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

    # -- partitions

    def partitions(self) -> "list[PartitionStatus]":
        """Each partition with its leader and replicas; only embedded clusters know the epoch.

        Raises:
            InvalidArgument: there is no such topic.
        """
        self._reach.state.require_topic(self.name)
        return self._reach.state.partitions_of(self.name)

    def partition(self, partition: int = 0) -> "PartitionStatus":
        """A partition's leader, replicas and in-sync replicas; -1 is an epoch that is not known.

        Args:
            partition: the partition's number, from 0 on.

        Raises:
            InvalidArgument: there is no such partition.
        """
        return self._reach.state.require_partition(self.name, partition)

    def leader(self, partition: int = 0) -> int:
        """The id of the broker that leads a partition.

            kafka.broker(orders.leader()).kill()

        Args:
            partition: the partition's number, from 0 on.

        Raises:
            InvalidArgument: there is no such partition.
            EmbedKafkaError: it has no leader now; `await_leader` waits for one.
        """
        from embedkafka.cluster.handles.coordinators import leader_of  # on first use

        return leader_of(self._reach.state, self.name, partition)

    def add_partitions(self, count: int) -> None:
        """Grows the topic to `count` partitions; returns when every broker knows their leaders.

        Args:
            count: the new number of partitions in all.

        Raises:
            InvalidArgument: there is no such topic.
            EmbedKafkaError: the topic has that many partitions, or more.
        """
        state = self._reach.state
        state.require_topic(self.name)
        require_int("count", count, least=1, most=MAX_INT32)
        self._reach.admin.create_partitions(self.name, count)
        what = f"every broker to know the leaders of {self.name}"
        self._reach.await_state(what, state.leaders_known({self.name: count}), PATIENCE_S)
        self._clients.on_partitions(self.name, count)

    def delete(self, *, timeout_s: float = PATIENCE_S) -> None:
        """Deletes the topic; returns when no broker knows it any more.

        Args:
            timeout_s: how long to wait, in seconds of real time.

        Raises:
            InvalidArgument: there is no such topic.
            AwaitTimeout: it was not gone in that time.
            ClusterClosed: no broker answered; each of them was asked for that time.
        """
        require_number("timeout_s", timeout_s)
        self._reach.state.require_topic(self.name)
        self._reach.on_deletion(self.name)
        timeout_ms = max(1, int(timeout_s * 1000))
        is_over = self._reach.admin.delete_topic(self.name, timeout_ms=timeout_ms)
        self.await_gone(timeout_s=timeout_s if is_over else 0)

    def await_gone(self, *, timeout_s: float = PATIENCE_S) -> None:
        """Waits until the topic's deletion, by any client, is complete.

        Args:
            timeout_s: how long to wait, in seconds of real time.

        Raises:
            AwaitTimeout: it was not gone in that time.
        """
        probe = self._reach.state.topic_gone(self.name)
        self._reach.await_state(f"{self.name} to be gone", probe, timeout_s)

    def await_leader(self, partition: int = 0, *, timeout_s: float = PATIENCE_S) -> int:
        """Waits until a partition has a reachable leader and all brokers know it.

        Args:
            partition: the partition's number.
            timeout_s: how long to wait, in seconds of real time.

        Returns:
            The leader's id.

        Raises:
            AwaitTimeout: it did not happen in that time; the message shows the partition.
            InvalidArgument: there is no such partition.
        """
        led = self._await_partition(
            "a leader of {}", partition, self._reach.state.is_led, timeout_s
        )
        assert led.leader is not None, "a reachable leader that was awaited"
        return led.leader

    def await_no_leader(self, partition: int = 0, *, timeout_s: float = PATIENCE_S) -> None:
        """Waits until the controller has found that no replica may lead a partition.

        Args:
            partition: the partition's number.
            timeout_s: how long to wait, in seconds of real time.

        Raises:
            AwaitTimeout: it did not happen in that time.
            InvalidArgument: there is no such partition.
        """
        self._await_partition(
            "{} to have no leader", partition, lambda status: status.leader is None, timeout_s
        )

    def await_isr(
        self, partition: int = 0, *, size: int, timeout_s: float = PATIENCE_S
    ) -> tuple[int, ...]:
        """Waits until exactly `size` replicas are in sync and all brokers know it.

        Args:
            partition: the partition's number.
            size: the number of in-sync replicas to wait for.
            timeout_s: how long to wait, in seconds of real time.

        Returns:
            The ids of the in-sync replicas.

        Raises:
            AwaitTimeout: it did not happen in that time; the message shows the partition.
            InvalidArgument: there is no such partition.
        """
        require_int("size", size, least=0)
        return self._await_partition(
            f"{size} in-sync replicas of {{}}",
            partition,
            lambda status: len(status.isr) == size,
            timeout_s,
        ).isr

    def await_offsets(
        self, offsets: int | Mapping[int, int], *, timeout_s: float = PATIENCE_S
    ) -> None:
        """Waits until the topic's partitions have these ends, or later ones.

        Args:
            offsets: the end of each partition, `{0: 5, 1: 3}`, or the sum of all ends. Markers of
                transactions count.
            timeout_s: how long to wait, in seconds of real time.

        Raises:
            AwaitTimeout: it did not happen in that time; the message shows the ends.
            QueryFailed: as for `wait_for`.
        """
        self._reach.clients.waits().await_offsets(self.name, offsets, timeout_s=timeout_s)

    def _await_partition(
        self,
        what: str,
        partition: int,
        holds: "Callable[[PartitionStatus], bool]",
        timeout_s: float,
    ) -> "PartitionStatus":
        """Waits until a partition is in a state, and returns it; `what` has room for its name."""
        found: list[PartitionStatus] = []

        def note(status: "PartitionStatus") -> bool:
            found[:] = [status]
            return holds(status)

        probe = self._reach.state.partition(self.name, partition, note)
        self._reach.await_state(what.format(f"{self.name}-{partition}"), probe, timeout_s)
        return found[0]

    # -- Spark

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
