"""What a test does to a cluster that others use after it: undone when it ends."""

import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from embedkafka import Acl, AwaitTimeout, EmbeddedKafka, EmbedKafkaError, PartitionStatus
from embedkafka.broker.controller.controller import Controller
from embedkafka.cluster.restoring.coordinated import find_coordinated
from embedkafka.runtime import ids
from embedkafka.runtime.hashing import coordinator_partition
from embedkafka.security.principals import KafkaPrincipal
from embedkafka.wire.net.client import BrokerDisconnected
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.wire.protocol.messages.core import MetadataRequest
from embedkafka.wire.protocol.messages.topics import CreateTopicsRequest
from tests.cluster.members import PATIENCE_S, WAYS_TO_LEAVE, Members, await_true
from tests.cluster.reassignment import reassign
from tests.presence import present

RETENTION = "retention.ms"


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(brokers=3, topics={"own": 2}) as cluster:
        yield cluster


def client(kafka: EmbeddedKafka, **settings: object) -> dict[str, Any]:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return {"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0, **named}


def commit(kafka: EmbeddedKafka, group: str, topic: str) -> None:
    consumer = Consumer(client(kafka, group_id=group, enable_auto_commit=False))
    consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    consumer.close()


def open_transaction(kafka: EmbeddedKafka, name: str, topic: str) -> Producer:
    producer = Producer(client(kafka, transactional_id=name))
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(topic, "undecided")
    producer.flush()
    return producer


def configure(kafka: EmbeddedKafka, kind: ResourceType, name: str, setting: str, to: str) -> None:
    admin = AdminClient(client(kafka))
    entry = ConfigEntry(setting, to, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(kind, name, incremental_configs=[entry])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(20)


def joined(kafka: EmbeddedKafka, group: str, topic: str, **settings: Any) -> Consumer:
    """A consumer that knows its partitions.

    If it had not polled them, its `close` would never return while the coordinator is out of reach.
    """
    consumer = Consumer(client(kafka, group_id=group, enable_auto_commit=False, **settings))
    consumer.subscribe([topic])
    while not consumer.assignment():
        consumer.poll(0.05)
    return consumer


def topics_of(kafka: EmbeddedKafka) -> set[str]:
    known = AdminClient(client(kafka)).list_topics(timeout=20).topics
    return {name for name in known if not name.startswith("__")}


def coordinated(kafka: EmbeddedKafka) -> tuple[set[str], set[str]]:
    found = find_coordinated(kafka._require_brokers())
    return set(found.groups), set(found.transactions)


def test_topics_of_the_block_go_and_earlier_ones_stay(kafka: EmbeddedKafka) -> None:
    kept = kafka.topic("kept")
    with kafka.isolated():
        kafka.topic("passing").send("x")
        kept.send("added")
    assert topics_of(kafka) == {"own", "kept"}
    assert [message.text for message in kept.read()] == ["added"]
    kept.delete()


def test_topics_that_the_cluster_was_made_with_are_empty_again(kafka: EmbeddedKafka) -> None:
    with kafka.isolated():
        kafka.existing_topic("own").send("x")
        kafka.existing_topic("own").add_partitions(3)
    with kafka.isolated():
        assert kafka.existing_topic("own").read() == []
        assert len(AdminClient(client(kafka)).list_topics("own").topics["own"].partitions) == 2
        kafka.existing_topic("own").delete()
    kafka.existing_topic("own").send("y")
    with kafka.isolated():  # not empty at the beginning: it belongs to what came before
        kafka.existing_topic("own").send("z")
    assert {message.text for message in kafka.existing_topic("own").read(2)} == {"y", "z"}
    kafka.reset()


def test_groups_and_transactions_of_the_block_go(kafka: EmbeddedKafka) -> None:
    kafka.topic("orders")
    commit(kafka, "before", "orders")
    with kafka.isolated():
        commit(kafka, "during", "orders")
        producer = open_transaction(kafka, "txn", "orders")
        assert coordinated(kafka) == ({"before", "during"}, {"txn"})
    assert coordinated(kafka) == ({"before"}, set())
    kafka.existing_topic("orders").send("after")
    assert [m.text for m in kafka.existing_topic("orders").read()] == ["after"]
    del producer
    kafka.reset()


GONE: dict[str, Callable[[EmbeddedKafka, int], object]] = {
    "runs": lambda kafka, added: None,
    "is killed": lambda kafka, added: kafka.broker(added).kill(),
    "is paused": lambda kafka, added: kafka.broker(added).pause(),
    "is removed": lambda kafka, added: kafka.broker(added).remove(),
}
"""What may have become of a broker that a block has added."""


BROKEN: dict[str, Callable[[EmbeddedKafka, int], object]] = {
    "its leader is killed": lambda kafka, leader: kafka.broker(leader).kill(),
    "a follower is killed": lambda kafka, leader: kafka.broker(leader % 3 + 1).kill(),
    "its leader is paused": lambda kafka, leader: kafka.broker(leader).pause(),
    "all brokers are killed": lambda kafka, leader: [each.kill() for each in kafka.brokers],
}


@pytest.mark.parametrize("way", BROKEN)
def test_an_open_transaction_of_a_broken_cluster_is_aborted(kafka: EmbeddedKafka, way: str) -> None:
    """Without its coordinator's state it would stay open, and hide what follows for ever."""
    kept = kafka.topic("kept", replication=3)
    with kafka.isolated():
        producer = open_transaction(kafka, "txn", "kept")
        BROKEN[way](kafka, kept.leader())
    del producer
    kept.send("after")
    assert [message.text for message in kept.read()] == ["after"]
    kafka.reset()


def test_a_committed_transaction_of_a_broken_cluster_stays(kafka: EmbeddedKafka) -> None:
    """Its markers have not arrived when the block ends."""
    kept = kafka.topic("kept")
    leader = kept.leader()
    kafka.broker(leader % 3 + 1).become_controller()
    with kafka.isolated():
        names = (f"txn-{number}" for number in itertools.count())
        name = next(each for each in names if txn_coordinator(kafka, each) != leader)
        producer = open_transaction(kafka, name, "kept")
        kafka.broker(leader).kill()
        with suppress(KafkaException):  # it may wait for the markers
            producer.commit_transaction(1)
        states = lambda: find_coordinated(kafka._require_brokers()).transactions  # noqa: E731
        await_true(lambda: states().get(name) == "PrepareCommit", PATIENCE_S)
    del producer
    assert [message.text for message in kept.read()] == ["undecided"]
    kafka.reset()


def txn_coordinator(kafka: EmbeddedKafka, transactional_id: str) -> int:
    topic = "__transaction_state"
    if not kafka._reach.has_topic(topic):
        open_transaction(kafka, "first", "kept").abort_transaction(20)
    count = len(kafka._state.partitions_of(topic))
    return kafka.existing_topic(topic).leader(coordinator_partition(transactional_id, count))


@pytest.mark.parametrize("how", GONE)
def test_an_open_transaction_is_aborted_though_its_coordinator_goes(how: str) -> None:
    """Half of the coordinators are on the broker that the block adds."""
    with EmbeddedKafka() as kafka:
        kept = kafka.topic("kept")
        with kafka.isolated():
            kafka.brokers.add()
            producers = [open_transaction(kafka, f"txn-{n}", "kept") for n in range(6)]
            GONE[how](kafka, 2)
        del producers
        kept.send("after")
        assert [message.text for message in kept.read()] == ["after"]


def test_groups_are_found_though_their_coordinator_has_just_started() -> None:
    with EmbeddedKafka() as kafka:
        kafka.topic("kept")
        commit(kafka, "before", "kept")
        for _ in range(5):
            kafka.broker(1).restart()
            assert kafka._isolation().look().coordinated.groups == {"before": "Empty"}
        with kafka.isolated():
            commit(kafka, "during", "kept")
            kafka.broker(1).restart()
        kafka._reach.await_state("the coordinators", kafka._state.led(["__consumer_offsets"]))
        assert coordinated(kafka) == ({"before"}, set())


def test_a_group_with_members_loses_its_offsets_too(kafka: EmbeddedKafka) -> None:
    with kafka.isolated():
        kafka.topic("orders")
        consumer = joined(kafka, "left", "orders")
        consumer.commit(offsets=[TopicPartition("orders", 0, 5)], asynchronous=False)
    consumer.close()
    kafka.topic("orders")
    again = Consumer(client(kafka, group_id="left"))
    (found,) = again.committed([TopicPartition("orders", 0)], timeout=20)
    assert found.offset < 0
    again.close()
    kafka.reset()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_members_goes_while_an_earlier_group_stays(
    kafka: EmbeddedKafka, protocol: str
) -> None:
    kafka.topic("orders")
    commit(kafka, "before", "orders")
    with kafka.isolated():
        consumer = joined(kafka, "left", "orders", group_protocol=protocol)
        consumer.commit(offsets=[TopicPartition("orders", 0, 5)], asynchronous=False)
        for broker in kafka.brokers:  # it cannot join again, as if its process had been killed
            kafka.faults.cut_link("clients", broker.id)
    assert coordinated(kafka)[0] - {"left"} == {"before"}
    again = Consumer(client(kafka, group_id="left"))
    (found,) = again.committed([TopicPartition("orders", 0)], timeout=20)
    assert found.offset < 0
    again.close()
    consumer.close()
    kafka.reset()


@pytest.mark.parametrize("keeps_a_group", [True, False])
@pytest.mark.parametrize("way", WAYS_TO_LEAVE)
def test_a_group_goes_in_whatever_state_it_was_left(
    kafka: EmbeddedKafka, way: str, keeps_a_group: bool
) -> None:
    kafka.topic("orders")
    if keeps_a_group:
        commit(kafka, "before", "orders")
    kept = {"before"} if keeps_a_group else set()
    with kafka.isolated():
        members = Members(kafka, "left", "orders")
        members.await_state(WAYS_TO_LEAVE[way](members))
    assert coordinated(kafka)[0] == kept
    with members, Members(kafka, "left", "orders") as later:
        later.stable()
        assert coordinated(kafka)[0] == kept | {"left"}
    kafka.check()
    kafka.reset()


def test_groups_work_after_a_block_that_added_a_broker() -> None:
    with EmbeddedKafka() as kafka:
        kafka.topic("orders")
        with kafka.isolated():
            kafka.brokers.add()  # and partitions of __consumer_offsets come to be on it
            commit(kafka, "during", "orders")
        for number in range(8):  # enough to meet every partition of __consumer_offsets
            commit(kafka, f"after-{number}", "orders")
        found = AdminClient(client(kafka)).list_topics(timeout=20).topics
        assert {
            broker
            for topic in found.values()
            for partition in topic.partitions.values()
            for broker in partition.replicas
        } == {1}


def test_settings_of_the_block_are_undone(kafka: EmbeddedKafka) -> None:
    kafka.topic("kept", config={RETENTION: 1000})
    zk = kafka._require_brokers().zk
    before = zk.overrides()
    with kafka.isolated():
        configure(kafka, ResourceType.TOPIC, "kept", RETENTION, "2000")
        configure(kafka, ResourceType.BROKER, "1", "log.cleaner.threads", "2")
        kafka.topic("passing", config={RETENTION: 5})
        assert zk.overrides() != before
    assert zk.overrides() == before
    for handle in kafka._require_brokers().running():
        config = handle.require_broker().config
        assert config.log_config("kept").retention_ms == 1000
        assert config.broker.integer("log.cleaner.threads") == 1
    kafka.reset()


DAMAGE: dict[str, Callable[[EmbeddedKafka], object]] = {
    "kill": lambda kafka: kafka.broker(2).kill(),
    "kill all": lambda kafka: [handle.kill() for handle in kafka.brokers],
    "stop": lambda kafka: kafka.broker(1).stop(),
    "restart": lambda kafka: [handle.restart() for handle in kafka.brokers],
    "pause": lambda kafka: kafka.broker(3).pause(),
    "partition": lambda kafka: kafka.brokers.partition({1}, {2, 3}),
    "pause all and partition": lambda kafka: [
        *(handle.pause() for handle in kafka.brokers),
        kafka.brokers.partition({1}, {2, 3}),
    ],
    "add": lambda kafka: kafka.brokers.add(),
    "remove": lambda kafka: kafka.broker(2).remove(),
    "error": lambda kafka: kafka.faults.error("PRODUCE", "NOT_ENOUGH_REPLICAS", times=None),
    "link": lambda kafka: kafka.faults.stall_link("clients"),
    "slow disk": lambda kafka: kafka.faults.disk(1).slow(1000),
    "disk": lambda kafka: kafka.faults.disk(1).fail(),
    "advance": lambda kafka: kafka.clock.advance(days=8),
    "freeze": lambda kafka: kafka.clock.freeze(),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_what_was_broken_works_again(kafka: EmbeddedKafka, name: str) -> None:
    kept = kafka.topic("kept", replication=3, partitions=3)
    leaders = [kept.leader(number) for number in range(3)]
    addresses = [handle.address for handle in kafka.brokers]
    with kafka.isolated():
        kept.send("before")
        DAMAGE[name](kafka)
    assert [handle.id for handle in kafka.brokers] == [1, 2, 3]
    assert [handle.address for handle in kafka.brokers] == addresses
    assert "fault" not in kafka.describe()
    assert "network" not in kafka.describe()
    assert kafka.clock.describe() is None
    kept.send("after")
    assert len(kept.read(2)) == 2
    assert [kept.leader(number) for number in range(3)] == leaders
    kafka.reset()


def test_what_was_broken_before_stays_so(kafka: EmbeddedKafka) -> None:
    kafka.broker(2).stop()
    fault = kafka.faults.error("OFFSET_FETCH", "NOT_COORDINATOR")
    with kafka.isolated():
        kafka.broker(3).stop()
        kafka.faults.error("PRODUCE", "NOT_ENOUGH_REPLICAS")
    assert [handle.state.value for handle in kafka.brokers] == ["running", "stopped", "running"]
    assert kafka.faults.standing == [fault]
    kafka.reset()


HOLDING: dict[str, Callable[[EmbeddedKafka], object]] = {
    "delay": lambda kafka: kafka.faults.delay("CREATE_TOPICS", 60_000),
    "slow link": lambda kafka: kafka.faults.slow_link("clients", latency_ms=60_000),
    "stalled link": lambda kafka: kafka.faults.stall_link("clients"),
    "dropped reply": lambda kafka: kafka.faults.drop_reply("CREATE_TOPICS"),
}


@pytest.mark.parametrize("how", HOLDING)
def test_a_request_that_a_fault_holds_up_ends_with_the_block(
    kafka: EmbeddedKafka, how: str
) -> None:
    """It does not happen later, and a client that outlives the test does not wait for it."""
    client = kafka._require_brokers().require(1).require_broker().make_client("late")
    topic = CreateTopicsRequest.Topic(
        name="late", num_partitions=1, replication_factor=1, assignments=[], configs=[]
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
    with ThreadPoolExecutor(1) as pool:
        with kafka.isolated():
            HOLDING[how](kafka)
            answer = pool.submit(client.call, request, 7)
            held = kafka._require_brokers()._requests.links.held
            await_true(lambda: bool(held._held), PATIENCE_S)
        kafka.clock.advance(minutes=2)
        assert isinstance(answer.exception(PATIENCE_S), BrokerDisconnected)
    assert "late" not in topics_of(kafka)
    kafka.clock.reset()


@pytest.mark.parametrize("kind", ["delay", "drop_reply"])
def test_a_request_that_meets_a_fault_just_before_the_block_ends_is_not_held(
    kafka: EmbeddedKafka, kind: str
) -> None:
    """The fault has counted it, and holds it up only after the block has let all others go."""

    def end_block(request: object) -> bool:
        kafka._require_brokers().drop_held_requests()
        return True

    set_fault = {
        "delay": lambda: kafka.faults.delay("METADATA", 600_000, client_id="late", when=end_block),
        "drop_reply": lambda: kafka.faults.drop_reply("METADATA", client_id="late", when=end_block),
    }[kind]
    client = kafka._require_brokers().require(1).require_broker().make_client("late")
    with set_fault() as fault, pytest.raises(BrokerDisconnected):
        client.call(MetadataRequest(topics=[]), 4, timeout_ms=int(PATIENCE_S * 1000))
    assert fault.hits == 1


def test_settings_of_a_topic_that_the_block_deletes_go_too(kafka: EmbeddedKafka) -> None:
    kept = kafka.topic("kept", config={RETENTION: 1000})
    with kafka.isolated():
        kept.delete()
        configure(kafka, ResourceType.BROKER, "1", "log.cleaner.threads", "2")
    overrides = kafka._require_brokers().zk.overrides()
    assert [name for kind, name in overrides if kind == "topics" and name == "kept"] == []
    kafka.reset()


def test_a_deletion_that_a_fault_holds_up_ends_with_the_block(kafka: EmbeddedKafka) -> None:
    kafka.topic("kept")
    with kafka.isolated():
        kafka.faults.stall_link(kafka.brokers.await_controller())
        for name in ("kept", "own"):
            with pytest.raises(AwaitTimeout, match=f"{name} to be gone"):
                kafka.existing_topic(name).delete(timeout_s=0.1)
    assert kafka._require_brokers().zk.topics() == {"own"}
    assert kafka.existing_topic("own").read() == []


def test_acls_users_and_quotas_of_the_block_are_undone() -> None:
    config = {
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    with EmbeddedKafka(config=config) as kafka:
        kafka.acls.add(Acl.allow("job", "READ", topic="orders"))
        zk = kafka._require_brokers().zk
        kept, settings = kafka.acls.all(), zk.overrides()
        with kafka.isolated():
            kafka.acls.replace([Acl.allow("other", "WRITE", topic="orders")])
            admin = AdminClient(client(kafka))
            scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
            wanted: list[Any] = [UserScramCredentialUpsertion("ann", scram, b"secret")]
            for done in admin.alter_user_scram_credentials(wanted).values():
                done.result(20)
            assert zk.overrides() != settings
        assert kafka.acls.all() == kept
        assert zk.overrides() == settings


def test_delegation_tokens_of_the_block_go_and_earlier_ones_stay() -> None:
    with EmbeddedKafka(brokers=2, config={"delegation.token.secret.key": "secret"}) as kafka:
        brokers = [handle._lifecycle.require_broker() for handle in kafka.brokers]
        tokens = brokers[1].tokens
        assert tokens is not None
        ann = KafkaPrincipal("User", "ann")
        kept = tokens.create(ann, ann, (), -1)
        with kafka.isolated():
            tokens.create(ann, ann, (), -1)
            assert len(tokens.all()) == 2
        assert tokens.all() == [kept]


def is_on(replicas: tuple[int, ...]) -> Callable[[PartitionStatus], bool]:
    return lambda now: now.replicas == replicas


def test_replicas_are_back_where_they_were(kafka: EmbeddedKafka) -> None:
    """A reassignment that has ended, and one that cannot end as long as its target is cut off."""
    for name in ("moved", "moving"):
        kafka.topic(name, replication=2).send("x")
    before = {name: kafka.existing_topic(name).partition() for name in ("moved", "moving")}
    brokers = kafka._require_brokers()
    with kafka.isolated():
        for name, status in before.items():
            (other,) = {1, 2, 3} - set(status.replicas)
            target = (other, status.replicas[0])
            if name == "moving":
                kafka.broker(status.replicas[0]).become_controller()
                kafka.broker(other).pause()
            reassign(kafka, name, target)
            if name == "moved":
                moved = brokers.state.partition(name, 0, is_on(target))
                brokers.waiting.await_state("the move", moved)
        moving = brokers.zk.find_topic("moving")
        assert moving is not None
        assert moving.partitions[0].is_being_reassigned
    for name, status in before.items():
        now = kafka.existing_topic(name).partition()
        assert (now.replicas, now.leader) == (status.replicas, status.replicas[0])
        assert set(kafka.existing_topic(name).await_isr(size=2)) == set(status.replicas)
        assert len(kafka.existing_topic(name).read()) == 1
    kafka.reset()


@pytest.mark.parametrize(
    "refusal",
    [
        ApiError(ErrorCode.NOT_CONTROLLER),
        {
            ids.TopicPartition("kept", 0): ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, "no such broker"
            )
        },
    ],
    ids=["whole", "partition"],
)
def test_a_refusal_to_move_replicas_back_is_not_the_last_word(
    kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch, refusal: Any
) -> None:
    """The controller may have changed, or may not know yet that a broker is back."""
    kept = kafka.topic("kept")
    before = kept.partition().replicas
    alter, refused = Controller.alter_partition_reassignments, 0

    def refuse_twice(controller: Controller, wanted: Any, reply: Any, **named: Any) -> None:
        nonlocal refused
        if refused < 2:
            refused += 1
            reply(refusal)
        else:
            alter(controller, wanted, reply, **named)

    with kafka.isolated():
        reassign(kafka, "kept", (*before, *({1, 2, 3} - set(before))))
        monkeypatch.setattr(Controller, "alter_partition_reassignments", refuse_twice)
    assert kafka.existing_topic("kept").partition().replicas == before
    assert refused == 2
    kafka.reset()


@pytest.mark.parametrize("how", GONE)
def test_nothing_that_stays_is_on_a_broker_that_goes(kafka: EmbeddedKafka, how: str) -> None:
    """A partition that was moved to the new broker, and partitions that were added there."""
    kept = kafka.topic("kept")
    kept.send("before")
    before = kept.partition()
    brokers = kafka._require_brokers()
    with kafka.isolated():
        kafka.brokers.add()
        reassign(kafka, "kept", (4,))
        brokers.waiting.await_state("the move", brokers.state.partition("kept", 0, is_on((4,))))
        kept.add_partitions(8)
        for number in range(8):
            kept.send("added", partition=number)
        assert [kept.leader(number) for number in range(1, 8)].count(4) > 0
        GONE[how](kafka, 4)
    assert [handle.id for handle in kafka.brokers] == [1, 2, 3]
    assert kept.partition().replicas == before.replicas
    for status in kept.partitions():
        assert status.leader in status.replicas
        assert {status.leader, *status.isr, *status.replicas} <= {1, 2, 3}
    assert sorted(present(message.text) for message in kept.read(9)) == ["added"] * 8 + ["before"]
    kafka.check()
    kafka.reset()


def test_requests_and_scratch_directories_of_the_block_are_gone(kafka: EmbeddedKafka) -> None:
    mark = kafka.mark()
    kept = Path(kafka.scratch_dir("kept"))
    with kafka.isolated():
        kafka.topic("passing").send("x")
        assert kafka.requests("Produce")
        scratch = Path(kafka.scratch_dir("checkpoint"))
    assert kafka.requests("Produce") == []
    assert not scratch.exists()
    assert kept.exists()
    with pytest.raises(EmbedKafkaError, match="older than this test"):
        kafka.requests("Produce", since=mark)
