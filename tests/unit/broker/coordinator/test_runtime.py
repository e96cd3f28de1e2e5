"""The runtime with a coordinator that counts: each word it receives becomes one record."""

from collections.abc import Callable
from typing import Any, Self

import pytest

from embedkafka.broker.coordinator.decision import (
    Decision,
    Decisions,
    LogRecord,
    Stored,
    TransactionalProducer,
    refusal_of,
)
from embedkafka.broker.coordinator.hosting import ShardHost
from embedkafka.broker.coordinator.runtime import CoordinatorRuntime
from embedkafka.runtime.failures import BackgroundFailure
from embedkafka.runtime.hashing import coordinator_partition
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.wire.records.batch import Batch, RecordBatch
from tests.presence import present
from tests.unit.broker.coordinator.bench import Bench, Reply


class Shard:
    """Counts the records of one partition; its effects are strings."""

    def __init__(self, partition: int, epoch: int) -> None:
        self.partition = partition
        self.epoch = epoch
        self.count = 0
        self.waiting: list[Reply] = []

    def replay_batch(self, batch: Batch) -> None:
        if any(record.key == b"odd" for record in batch.records()):
            raise ValueError("an odd record")
        self.count += present(batch.record_count)

    def on_loaded(self, *, now_ms: int) -> Decision[str]:
        return Decision(effects=["loaded"])

    def on_unloaded(self) -> Decision[str]:
        out: Decisions[str] = Decisions()
        for reply in self.waiting:
            out.answer(reply, ErrorCode.NOT_COORDINATOR)
        out.do("never")
        return out.done()

    def add(
        self,
        reply: Reply,
        *,
        key: bytes = b"k",
        producer: TransactionalProducer | None = None,
        delay_ms: int = 0,
    ) -> Decision[str]:
        def on_stored(stored: Stored, after: Decisions[str]) -> None:
            if stored.error is ErrorCode.NONE:
                self.count += 1
                after.do("added")
            after.answer(reply, stored.told_as())

        out: Decisions[str] = Decisions()
        out.write([LogRecord(key, b"v")], on_stored, producer=producer, delay_ms=delay_ms)
        return out.done()

    def wait(self, reply: Reply) -> Decision[str]:
        self.waiting.append(reply)
        return Decision()


class Effects:
    def __init__(self) -> None:
        self.seen: list[str] = []

    def carry_out(self, partition: int, shard: Shard, effect: str) -> None:
        self.seen.append(effect)

    def cancel(self, partition: int) -> None:
        self.seen.append("cancelled")


class Counter(Bench):
    early: Reply  # the reply to a request sent before the log was loaded, if the fixture sent one

    def __init__(self, *, is_bound_to_epoch: bool = False, **parts: Any) -> None:
        super().__init__(**parts)
        self.effects = Effects()
        host = ShardHost(
            "__counts",
            self.parts,
            leaders=self.elsewhere,
            new_shard=Shard,
            effects=self.effects,
            is_bound_to_epoch=is_bound_to_epoch,
        )
        self.coordinator = CoordinatorRuntime(host, self.parts, partition_count=1)
        self.service = self

    def lead(self, epoch: int = 0) -> Self:
        self.coordinator.on_leading(0, epoch)
        self.loop.run()
        return self

    def submit(
        self,
        method: Callable[..., Decision[str]] = Shard.add,
        *,
        may_wait: bool = True,
        **options: Any,
    ) -> Reply:
        reply = Reply()

        def decide(shard: Shard, now_ms: int) -> Decision[str]:
            return method(shard, reply, **options)

        self.coordinator.submit("key", decide, reply, lambda error: error, may_wait=may_wait)
        self.loop.run()
        return reply


@pytest.fixture
def counter() -> Counter:
    return Counter().lead()


def test_an_answer_waits_for_the_append_and_effects_follow(counter: Counter) -> None:
    counter.log.hold()
    reply = counter.submit()
    assert reply.is_waiting
    counter.log.release()
    counter.loop.run()
    assert reply.response is ErrorCode.NONE
    assert counter.effects.seen == ["loaded", "added"]


def test_whoever_has_an_answer_finds_its_effects_at_work(counter: Counter) -> None:
    seen = []

    def decide(shard: Any, now_ms: float) -> Any:
        out = Decisions()
        out.answer(lambda _: seen.extend(counter.effects.seen), None)
        out.do("timer")
        return out.done()

    counter.coordinator.submit("key", decide, print, print)
    counter.loop.run()
    assert seen == ["loaded", "timer"]


def test_an_answer_that_fails_is_recorded_and_the_others_are_sent(counter: Counter) -> None:
    seen = []

    def fail(response: Any) -> None:
        raise ValueError("no such response")

    def decide(shard: Any, now_ms: float) -> Any:
        out = Decisions()
        out.answer(fail, None)
        out.answer(seen.append, "second")
        return out.done()

    counter.coordinator.submit("key", decide, print, print)
    counter.loop.run()
    assert seen == ["second"]
    with pytest.raises(BackgroundFailure, match=r"(?s)__counts-0.*no such response"):
        counter.failures.check()


def test_a_refused_append_is_told_in_the_words_of_a_coordinator(counter: Counter) -> None:
    counter.log.errors.append(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert counter.submit().response is ErrorCode.COORDINATOR_NOT_AVAILABLE
    own = {ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.REBALANCE_IN_PROGRESS}
    assert refusal_of(ErrorCode.NOT_ENOUGH_REPLICAS, own) is ErrorCode.REBALANCE_IN_PROGRESS
    assert refusal_of(ErrorCode.INVALID_TOPIC_EXCEPTION) is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_delayed_append_takes_its_time(counter: Counter) -> None:
    reply = counter.submit(delay_ms=20)
    counter.advance(19)
    assert reply.is_waiting
    counter.advance(1)
    assert reply.response is ErrorCode.NONE


def test_a_shard_answers_when_its_log_is_replayed(counter: Counter) -> None:
    counter.submit()
    counter.submit()
    other = Counter(log=counter.log)
    loading = other.begin_loading()
    early = other.submit()
    assert early.is_waiting
    assert other.submit(may_wait=False).response is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert other.coordinator.is_loading
    other.loop.events = loading
    other.loop.run()
    assert early.response is ErrorCode.NONE
    assert other.shard().count == 3


def test_a_shard_answers_when_its_broker_knows_the_cluster() -> None:
    counter = Counter()
    counter.elsewhere.is_informed = False
    counter.lead()
    early = counter.submit()
    assert counter.submit(may_wait=False).response is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    counter.coordinator.on_metadata_changed()  # an update that is not a full one
    counter.loop.run()
    assert early.is_waiting
    assert counter.effects.seen == []
    counter.elsewhere.is_informed = True
    counter.coordinator.on_metadata_changed()
    counter.loop.run()
    assert early.response is ErrorCode.NONE
    assert counter.effects.seen == ["loaded", "added"]


def test_a_shard_may_be_let_go_before_its_broker_knows_the_cluster() -> None:
    counter = Counter(elsewhere=())
    counter.elsewhere.is_informed = False
    early = counter.lead().submit()
    counter.coordinator.on_resigned(0)
    counter.loop.run()
    assert early.response is ErrorCode.NOT_COORDINATOR
    counter.elsewhere.is_informed = True
    counter.coordinator.on_metadata_changed()
    counter.loop.run()
    assert counter.submit(may_wait=False).response is ErrorCode.NOT_COORDINATOR


def test_who_comes_before_the_leadership_waits_for_it() -> None:
    counter = Counter(elsewhere=())
    early = counter.submit()
    counter.coordinator.on_metadata_changed()
    counter.loop.run()
    assert early.is_waiting
    counter.lead()
    assert early.response is ErrorCode.NONE


def test_who_waits_hears_of_another_leader_at_once() -> None:
    counter = Counter(elsewhere=())
    early = counter.submit()
    counter.elsewhere.add(0)
    counter.coordinator.on_metadata_changed()
    counter.loop.run()
    assert early.response is ErrorCode.NOT_COORDINATOR
    assert counter.submit().response is ErrorCode.NOT_COORDINATOR


def test_who_waits_for_a_leader_that_never_comes_is_sent_away() -> None:
    counter = Counter(elsewhere=())
    early = counter.submit()
    counter.advance(500)
    assert early.response is ErrorCode.NOT_COORDINATOR


def test_a_shard_that_is_let_go_answers_and_does_nothing_else(counter: Counter) -> None:
    waiting = counter.submit(Shard.wait)
    counter.log.hold()
    appending = counter.submit()
    counter.coordinator.on_resigned(0)
    counter.loop.run()
    assert waiting.response is ErrorCode.NOT_COORDINATOR
    counter.log.release()
    counter.loop.run()
    assert appending.response is ErrorCode.NOT_COORDINATOR
    assert counter.effects.seen == ["loaded", "cancelled"]


def test_a_shard_that_is_let_go_while_it_loads_does_not_come_to_life(counter: Counter) -> None:
    counter.submit()
    other = Counter(log=counter.log)
    loading = other.begin_loading()
    other.coordinator.on_resigned(0)
    other.loop.run()
    other.loop.events = loading
    other.loop.run()
    assert other.effects.seen == ["cancelled"]
    assert other.submit().response is ErrorCode.NOT_COORDINATOR


def test_who_waits_for_a_shard_to_load_hears_at_once_that_it_was_let_go(counter: Counter) -> None:
    counter.submit()
    other = Counter(log=counter.log)
    other.begin_loading()
    early = other.submit()
    assert early.is_waiting
    other.coordinator.on_resigned(0)
    other.loop.run()
    assert early.response is ErrorCode.NOT_COORDINATOR


def test_who_waits_for_a_leader_hears_at_once_that_the_coordinator_stops() -> None:
    counter = Counter(elsewhere=())
    early = counter.submit()
    counter.coordinator.stop()
    counter.loop.run()
    assert early.response is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_batch_names_a_producer_only_in_a_transaction(counter: Counter) -> None:
    counter.submit()
    counter.submit(producer=TransactionalProducer(7, 3))
    (batches,) = counter.log.batches.values()
    plain, transactional = (RecordBatch(memoryview(batch)) for batch in batches)
    assert (plain.producer_id, plain.producer_epoch, plain.is_transactional) == (-1, -1, False)
    assert (transactional.producer_id, transactional.producer_epoch) == (7, 3)
    assert transactional.is_transactional


def test_a_delayed_append_of_a_shard_that_was_let_go_is_refused(counter: Counter) -> None:
    reply = counter.submit(delay_ms=20)
    counter.coordinator.on_resigned(0)
    counter.advance(20)
    assert reply.response is ErrorCode.NOT_COORDINATOR
    assert not counter.log.batches


def test_a_late_resignation_of_an_older_epoch_is_ignored(counter: Counter) -> None:
    counter.lead(5)
    counter.coordinator.on_resigned(0, 4)
    assert counter.submit().response is ErrorCode.NONE
    counter.coordinator.on_resigned(0, 5)
    assert counter.submit().response is ErrorCode.NOT_COORDINATOR
    counter.lead(7)
    assert counter.shard().count == 1


def test_a_newer_epoch_is_noted_or_begins_a_new_life() -> None:
    steady = Counter().lead(1).lead(2)
    assert steady.shard().epoch == 1
    bound = Counter(is_bound_to_epoch=True).lead(1).lead(2).lead(1)
    assert bound.shard().epoch == 2
    assert bound.effects.seen == ["loaded", "cancelled", "loaded"]


def unreadable(*_: Any) -> None:
    raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)


@pytest.mark.parametrize("method", ["read", "log_start_offset"])
def test_a_log_that_cannot_be_read_leaves_no_coordinator_for_now(
    monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    counter = Counter(elsewhere=())
    with monkeypatch.context() as patch:
        patch.setattr(counter.log, method, unreadable)
        counter.lead()
    assert counter.submit().response is ErrorCode.NOT_COORDINATOR
    assert not counter.coordinator.is_loading
    counter.advance(1_000)
    assert counter.submit().response is ErrorCode.NONE


def test_a_log_that_another_broker_leads_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    counter = Counter(elsewhere=())
    monkeypatch.setattr(counter.log, "read", unreadable)
    counter.lead()
    counter.elsewhere.add(0)
    counter.advance(10_000)
    assert counter.timer.next_due() is None
    assert counter.submit().response is ErrorCode.NOT_COORDINATOR


@pytest.fixture
def odd() -> Counter:
    """A coordinator that cannot replay a record of its log while a request waits."""
    first = Counter().lead()
    first.submit()
    first.submit(key=b"odd")
    odd = Counter(log=first.log, elsewhere=())
    odd.early = odd.submit()
    with pytest.raises(ValueError, match="odd"):
        odd.lead()
    return odd


def test_a_record_that_cannot_be_replayed_is_not_passed_over(odd: Counter) -> None:
    assert odd.early.response is ErrorCode.NOT_COORDINATOR
    assert odd.submit().response is ErrorCode.NOT_COORDINATOR
    assert not odd.coordinator.is_loading
    with pytest.raises(ValueError, match="odd"):
        odd.advance(1_000)
    assert odd.effects.seen == ["cancelled"]


def drop_odd_record(counter: Counter) -> None:
    for batches in counter.log.batches.values():
        del batches[1:]


def test_a_shard_that_failed_to_load_is_loaded_again_from_the_start(odd: Counter) -> None:
    drop_odd_record(odd)
    odd.advance(1_000)
    assert odd.submit().response is ErrorCode.NONE
    assert odd.shard().count == 2


@pytest.mark.parametrize("epoch", [0, 1])
def test_a_shard_that_failed_to_load_is_loaded_at_once_under_a_newer_epoch_only(
    odd: Counter, epoch: int
) -> None:
    drop_odd_record(odd)
    odd.lead(epoch)
    expected = ErrorCode.NONE if epoch else ErrorCode.NOT_COORDINATOR
    assert odd.submit().response is expected
    odd.advance(10_000)  # the scheduled retry finds it loaded
    assert odd.submit().response is ErrorCode.NONE
    assert odd.effects.seen.count("loaded") == 1


def test_a_shard_that_failed_to_load_is_let_go_like_any_other(odd: Counter) -> None:
    odd.coordinator.on_resigned(0)
    odd.advance(10_000)
    assert odd.timer.next_due() is None
    assert odd.effects.seen == ["cancelled"]


def test_a_stopped_coordinator_is_not_available(counter: Counter) -> None:
    def never(shard: Shard, now_ms: int) -> Decision[str]:
        raise AssertionError("a check ran after the stop")

    counter.coordinator.every(1_000, never)
    waiting = counter.submit(Shard.wait)
    counter.coordinator.stop()
    assert counter.submit().response is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert waiting.response is ErrorCode.NOT_COORDINATOR
    assert counter.effects.seen == ["loaded", "cancelled"]
    counter.advance(2_000)
    assert counter.timer.next_due() is None
    counter.loop.is_open = False
    assert counter.submit().response is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_checks_come_again_and_again(counter: Counter) -> None:
    replies = []

    def check(shard: Any, now_ms: float) -> Any:
        replies.append(Reply())
        return shard.add(replies[-1])

    counter.coordinator.every(1_000, check)
    counter.advance(3_500)
    assert [reply.response for reply in replies] == [ErrorCode.NONE] * 3


def test_the_topic_says_how_many_partitions_there_are(counter: Counter) -> None:
    counter.coordinator.start(None)
    assert counter.coordinator.partition_for("key") == 0
    counter.coordinator.start(50)
    assert counter.coordinator.partition_for("key") == coordinator_partition("key", 50)
