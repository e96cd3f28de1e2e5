"""Stock clients that copy a topic, each record exactly once.

They retry every retriable call, abort a transaction that cannot go on and read its records again,
and replace a producer that has failed.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from embedkafka import EmbeddedKafka
from tests.cluster.traffic import is_left_unread, make_consumer, make_producer
from tests.java_tools.java_client import JavaClient, JavaError, JavaProducer, Message
from tests.presence import present

CALL_S = 20.0


class Copier:
    """Copies with librdkafka in transactions of up to `size` records, on a separate thread.

    Every `aborts_every`-th transaction is aborted on purpose. The copier ends when it is fenced.

    librdkafka 2.16 waits forever for a group coordinator that has vanished from the metadata, so
    tests kill other brokers.
    """

    def __init__(
        self,
        kafka: EmbeddedKafka,
        source: str,
        sink: str,
        *,
        name: str,
        group: str,
        size: int = 7,
        aborts_every: int = 0,
    ) -> None:
        self.sink = sink
        self.is_fenced = False
        self.committed = 0
        self.aborted = 0
        self.deaths: list[KafkaError] = []
        self._kafka = kafka
        self._name = name
        self._size = size
        self._aborts_every = aborts_every
        self._source, self._group = source, group
        self._consumer = self._new_consumer()
        self._producer: Producer | None = None
        self._ended = threading.Event()
        self._moved = threading.Condition()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"copier-{name}", daemon=True)

    def start(self) -> Self:
        self._thread.start()
        return self

    def stop(self) -> None:
        self._ended.set()
        self._thread.join(60)
        assert not self._thread.is_alive(), "the copier hangs"
        if self._failure is not None:
            raise self._failure

    def await_commits(self, count: int = 1, timeout_s: float = 60.0) -> None:
        """Waits for `count` further commits."""
        wanted = self.committed + count
        self._await(lambda: self.committed >= wanted, f"{count} commits", timeout_s)

    def await_fencing(self, timeout_s: float = 60.0) -> None:
        self._await(lambda: self.is_fenced, "the fencing", timeout_s)

    def _await(self, fact: Callable[[], bool], what: str, timeout_s: float) -> None:
        with self._moved:
            reached = self._moved.wait_for(lambda: fact() or self._failure, timeout_s)
        if self._failure is not None:
            raise self._failure
        assert reached, (
            f"timed out waiting for {what}; {self.committed} commits, {self.aborted} aborts"
        )

    # The thread

    def _run(self) -> None:
        try:
            while not self._ended.is_set() and not self.is_fenced:
                self._copy_some()
        except BaseException as failure:  # `_await` raises it
            self._failure = failure
        self._consumer.close()  # frees its partitions for other members
        with self._moved:
            self._moved.notify_all()

    def _copy_some(self) -> None:
        if self._producer is None:
            self._producer = make_producer(self._kafka, **{"transactional.id": self._name})
            _insist(self._producer.init_transactions)
            self._rewind()
        found = self._consumer.consume(self._size, 0.1)
        if any(is_left_unread(message.error()) for message in found):
            self._consumer.close()
            self._consumer = self._new_consumer()
            return
        messages = [message for message in found if message.error() is None]
        if not messages:
            return
        try:
            self._copy(messages)
        except KafkaException as refused:
            self._on_refusal(refused.args[0])
        with self._moved:
            self._moved.notify_all()

    def _new_consumer(self) -> confluent_kafka.Consumer:
        settings = {"isolation.level": "read_committed", "enable.partition.eof": False}
        consumer = make_consumer(self._kafka, self._group, **settings)
        consumer.subscribe([self._source])
        return consumer

    def _copy(self, messages: list[confluent_kafka.Message]) -> None:
        producer = present(self._producer)
        producer.begin_transaction()
        for message in messages:
            producer.produce(self.sink, message.value(), partition=present(message.partition()))
        following = {present(m.partition()): present(m.offset()) + 1 for m in messages}
        offsets = [TopicPartition(self._source, *place) for place in following.items()]
        group = self._consumer.consumer_group_metadata()
        _insist(lambda timeout: producer.send_offsets_to_transaction(offsets, group, timeout))
        turn = self.committed + self.aborted + 1
        if self._aborts_every and turn % self._aborts_every == 0:
            producer.flush(CALL_S)
            self._abort()
        else:
            _insist(producer.commit_transaction)
            self.committed += 1

    def _on_refusal(self, error: KafkaError) -> None:
        if error.code() == confluent_kafka.KafkaError._FENCED:
            self.is_fenced = True
        elif error.txn_requires_abort():
            try:
                self._abort()
            except KafkaException as refused:
                self._on_refusal(refused.args[0])
        else:
            assert error.fatal(), error
            self.deaths.append(error)
            self._producer = None

    def _abort(self) -> None:
        _insist(present(self._producer).abort_transaction)
        self.aborted += 1
        self._rewind()

    def _rewind(self) -> None:
        """Seeks to the committed offsets. Revoked partitions resume there anyway."""
        assignment = self._consumer.assignment()
        if not assignment:
            return
        for partition in _insist(lambda timeout: self._consumer.committed(assignment, timeout)):
            if partition.offset < 0:
                partition.offset = confluent_kafka.OFFSET_BEGINNING
            try:
                self._consumer.seek(partition)
            except KafkaException:
                continue


def _insist(call: Any) -> Any:
    """Repeats a call until it succeeds or fails with an error that is not retriable."""
    while True:
        try:
            return call(CALL_S)
        except KafkaException as refused:
            if not refused.args[0].retriable():
                raise


@contextmanager
def copying(
    kafka: EmbeddedKafka,
    source: str,
    sink: str,
    *,
    name: str = "copier",
    group: str = "copiers",
    **settings: Any,
) -> Iterator[Copier]:
    copier = Copier(kafka, source, sink, name=name, group=group, **settings).start()
    try:
        yield copier
    finally:
        copier.stop()


class JavaCopier:
    """Copies partition 0 of a topic with the Java clients, transaction by transaction."""

    def __init__(
        self,
        java: JavaClient,
        kafka: EmbeddedKafka,
        source: str,
        sink: str,
        *,
        name: str = "copier",
        group: str = "copiers",
    ) -> None:
        self.position = 0
        self.aborted = 0
        self.deaths = []
        self._java = java
        self._kafka = kafka
        self._source = f"{source}-0"
        self._sink = sink
        self._name = name
        self._consumer = java.consumer(
            kafka.bootstrap_servers,
            group_id=group,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            max_poll_records=5,
        )
        self._consumer.subscribe(source)
        self._producer = self._new_producer()

    def close(self) -> None:
        self._producer.close()
        self._consumer.close()

    def copy_some(
        self, between: Callable[[], object] = lambda: None, *, end: str = "commitTransaction"
    ) -> None:
        """Commits one transaction, with retries; `between` runs once its records are written."""
        while not self._try(between, end):
            self._rewind()
            between = _nothing

    def _try(self, between: Callable[[], object], end: str) -> bool:
        try:
            records = self._consumer.poll(1)
            assert records, f"no records after offset {self.position}"
            self._producer.call("beginTransaction")
            messages = [Message(topic=self._sink, partition=0, value=r.value) for r in records]
            sent = self._producer.send(*messages)
            between()
            for outcome in sent:
                if isinstance(outcome, JavaError):
                    raise outcome
            following = records[-1].offset + 1
            group = self._consumer.call("groupMetadata")
            self._producer.call("sendOffsets", offsets={self._source: following}, group=group)
            self._producer.call(end)
        except JavaError as error:
            self._recover(error)
            return False
        if end == "abortTransaction":
            self.aborted += 1
            self._rewind()
        else:
            self.position = following
        return True

    def _recover(self, error: JavaError) -> None:
        try:
            self._producer.call("abortTransaction")
            self.aborted += 1
        except JavaError:
            self.deaths.append(error)
            self._producer.close()
            self._producer = self._new_producer()

    def _new_producer(self) -> JavaProducer:
        producer = self._java.producer(self._kafka.bootstrap_servers, transactional_id=self._name)
        producer.call("initTransactions")
        return producer

    def _rewind(self) -> None:
        committed = self._consumer.call("committed", partitions=[self._source])[self._source]
        self.position = committed or 0
        self._consumer.call("seek", offsets={self._source: self.position})


def _nothing() -> None:
    pass
