"""Everything that a test may do to a cluster, each with chance choices of its own.

A move may fail, because an earlier one has broken what it needs. Then it says so and the block goes
on, as a test with `suppress` would.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from confluent_kafka import TopicPartition
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from embedkafka import Acl
from embedkafka.runtime import ids as named
from embedkafka.security.principals import KafkaPrincipal
from embedkafka.wire.protocol.messages.configs import (
    AlterClientQuotasRequest,
    IncrementalAlterConfigsRequest,
)
from embedkafka.wire.protocol.messages.groups import OffsetCommitRequest
from embedkafka.wire.protocol.messages.topics import AlterPartitionReassignmentsRequest
from tests.chaos.isolation.world import CLIENT_S, KEPT_GROUP, KEPT_TXN, KEPT_USER, World
from tests.cluster.members import WAYS_TO_LEAVE, Members

Move = Callable[[World, Random], object]
_APIS = ("PRODUCE", "FETCH", "METADATA", "OFFSET_COMMIT", "JOIN_GROUP", "FIND_COORDINATOR", "any")
_ERRORS = ("NOT_LEADER_OR_FOLLOWER", "REQUEST_TIMED_OUT", "UNKNOWN_SERVER_ERROR")


# -- topics and records


def create_topic(world: World, rng: Random) -> object:
    name = world.new_name("topic")
    config = {"retention.ms": 5_000} if rng.random() < 0.3 else {}
    replication = rng.randint(1, len(world.broker_ids))
    world.made.append(name)
    return world.kafka.topic(
        name, partitions=rng.randint(1, 4), replication=replication, config=config
    )


def create_by_producing(world: World, rng: Random) -> object:
    name = world.new_name("auto")
    world.made.append(name)
    return world.send(name, "x")


def send(world: World, rng: Random) -> object:
    name = rng.choice([*world.kept, *world.made, "own"])
    return name, world.send(name, world.new_name("value"))


def delete_topic(world: World, rng: Random) -> object:
    name = rng.choice([*world.made, *world.made, "own", *world.kept[1:]])
    if name in world.kept:
        world.gone.add(name)  # even if it fails, as its deletion may be under way
    world.kafka.existing_topic(name).delete(timeout_s=CLIENT_S)
    return name


def delete_records(world: World, rng: Random) -> object:
    name = rng.choice([*world.made, "own"])
    futures = world.admin().delete_records([TopicPartition(name, 0, 1)])
    return [future.result(CLIENT_S) for future in futures.values()]


def add_partitions(world: World, rng: Random) -> object:
    name = rng.choice([*world.kept, *world.made, "own"])
    count = len(world.kafka._state.partitions_of(name)) + rng.randint(1, 4)
    world.kafka.existing_topic(name).add_partitions(count)
    return f"{name} {count}"


def roll(world: World, rng: Random) -> object:
    return world.kafka.existing_topic(rng.choice([*world.kept, "own"])).roll()


# -- settings


def _alter(world: World, kind: ResourceType, name: str, setting: str, value: str) -> object:
    entry = ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(kind, name, incremental_configs=[entry])
    futures = world.admin().incremental_alter_configs([resource])
    return [future.result(CLIENT_S) for future in futures.values()]


def set_topic(world: World, rng: Random) -> object:
    name = rng.choice([*world.kept, *world.made, "own"])
    setting, value = rng.choice(
        [("retention.ms", "700000000"), ("max.message.bytes", "5000"), ("segment.bytes", "20000")]
    )
    return name, setting, _alter(world, ResourceType.TOPIC, name, setting, value)


def set_broker(world: World, rng: Random) -> object:
    name = rng.choice(["", *map(str, world.broker_ids)])
    setting, value = rng.choice([("log.cleaner.threads", "2"), ("message.max.bytes", "900000")])
    return name, setting, _alter(world, ResourceType.BROKER, name, setting, value)


def set_group(world: World, rng: Random) -> object:
    name = rng.choice([KEPT_GROUP, "other-group"])
    setting, value = "consumer.session.timeout.ms", "50000"
    return _alter(world, ResourceType.GROUP, name, setting, value)


def set_quota(world: World, rng: Random) -> object:
    _Entry = AlterClientQuotasRequest.Entry
    kind = rng.choice(["user", "client-id"])
    entry = _Entry(
        entity=[_Entry.Entity(entity_type=kind, entity_name=rng.choice([None, "someone"]))],
        ops=[_Entry.Op(key="producer_byte_rate", value=10_000.0, remove=False)],
    )
    request = AlterClientQuotasRequest(entries=[entry], validate_only=False)
    return world.wire().call(request, 1, timeout_ms=2_000)


def add_user(world: World, rng: Random) -> object:
    scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    wanted: list[Any] = [UserScramCredentialUpsertion("bob", scram, b"secret")]
    futures = world.admin().alter_user_scram_credentials(wanted)
    return [future.result(CLIENT_S) for future in futures.values()]


def set_acls(world: World, rng: Random) -> object:
    wanted = Acl.allow("other", "WRITE", topic=rng.choice(["kept-0", "elsewhere"]))
    if rng.random() < 0.5:
        return world.kafka.acls.add(wanted)
    return world.kafka.acls.replace([wanted])


def change_logins(world: World, rng: Random) -> object:
    """Revokes a user, gives it another password, or adds one; none of it sends a request."""
    logins = world.kafka.logins
    ways: list[Callable[[], object]] = [
        lambda: logins.revoke("ann"),
        lambda: logins.set_password("ann", world.new_name("password")),
        lambda: logins.set_password("eve", "e-secret"),
    ]
    chosen = rng.sample(ways, rng.randint(1, len(ways)))
    return [change() for change in chosen]


def set_logger(world: World, rng: Random) -> object:
    _Resource = IncrementalAlterConfigsRequest.Resource
    name = rng.choice(["kafka.server", "kafka.log", "kafka.zk"])
    changed = _Resource.Config(name=name, config_operation=0, value="ERROR")
    broker = rng.choice(world.broker_ids)
    loggers = _Resource(resource_type=8, resource_name=str(broker), configs=[changed])
    request = IncrementalAlterConfigsRequest(resources=[loggers], validate_only=False)
    return name, world.wire(broker).call(request, 1, timeout_ms=2_000)


def commit_to_zookeeper(world: World, rng: Random) -> object:
    _Topic = OffsetCommitRequest.Topic
    partition = _Topic.Partition(partition_index=0, committed_offset=1, committed_metadata="")
    topics = [_Topic(name=rng.choice(world.kept), partitions=[partition])]
    request = OffsetCommitRequest(group_id=world.new_name("old-group"), topics=topics)
    return world.wire().call(request, 0, timeout_ms=2_000)


def end_token(world: World, rng: Random) -> object:
    return world.kafka.logins.expire_tokens(KEPT_USER)


def create_token(world: World, rng: Random) -> object:
    tokens = rng.choice(world.brokers()).tokens
    assert tokens is not None, "no tokens here"
    owner = KafkaPrincipal("User", "ann")
    return tokens.create(owner, owner, (), -1)


# -- groups and transactions


def commit(world: World, rng: Random) -> object:
    topic = rng.choice([*world.kept, *world.made])
    with Members(world.kafka, world.new_name("group"), topic, patience_s=CLIENT_S) as outside:
        return outside.commit(rng.randint(0, 3))


def consume(world: World, rng: Random) -> object:
    """A stock consumer, which leaves its group."""
    protocol = rng.choice(["classic", "consumer"])
    consumer = world.consumer(world.new_name("group"), group_protocol=protocol)
    try:
        consumer.subscribe([rng.choice([*world.kept, *world.made])])
        message = consumer.poll(CLIENT_S)
        if message is not None and message.error() is None:
            consumer.commit(message=message, asynchronous=False)
        return protocol, message and (message.error() or message.value())
    finally:
        consumer.close()


def leave_members(world: World, rng: Random) -> object:
    way = rng.choice(list(WAYS_TO_LEAVE))
    members = Members(
        world.kafka, world.new_name("group"), rng.choice(world.kept), patience_s=CLIENT_S
    )
    world.leave_open(lambda: members.__exit__())
    WAYS_TO_LEAVE[way](members)
    return way


def delete_group(world: World, rng: Random) -> object:
    world.gone.add(KEPT_GROUP)
    futures = world.admin().delete_consumer_groups([KEPT_GROUP])
    return [future.result(CLIENT_S) for future in futures.values()]


def expire(world: World, rng: Random) -> object:
    group = world.new_name("group")
    with Members(world.kafka, group, world.kept[0], patience_s=CLIENT_S) as outside:
        outside.commit(1)
    return world.kafka.group(group).expire(timeout_s=CLIENT_S)


def transact(world: World, rng: Random) -> object:
    """A transaction that is left open, or ends, perhaps while its markers cannot arrive.

    It sends no offsets: librdkafka may wait for ever with them, whatever timeout it is given.
    """
    how = rng.choice(["open", "open", "commit", "abort"])
    transactional_id = rng.choice([world.new_name("txn"), world.new_name("txn"), KEPT_TXN])
    if transactional_id == KEPT_TXN:
        how = "commit"  # it stays, and a transaction that is open would stay too
    producer = world.producer(transactional_id=transactional_id)
    producer.init_transactions(CLIENT_S)
    producer.begin_transaction()
    topics = {rng.choice([*world.kept, "own"]) for _ in range(2)}
    value = f"{how}-{transactional_id}"
    for topic in topics:
        producer.produce(topic, value)
    producer.flush(CLIENT_S)
    if how == "commit":
        producer.commit_transaction(CLIENT_S)
        for topic in topics:
            world.acknowledged[topic][value] += 1
    elif how == "abort":
        producer.abort_transaction(CLIENT_S)
    return f"{how} {transactional_id} in {topics}"


def end_transaction_without_a_broker(world: World, rng: Random) -> object:
    """Its markers cannot arrive, so it stays prepared."""
    transactional_id = world.new_name("txn")
    producer = world.producer(transactional_id=transactional_id)
    producer.init_transactions(CLIENT_S)
    producer.begin_transaction()
    topic = rng.choice(world.kept)
    producer.produce(topic, f"aborted-{transactional_id}", partition=0)
    producer.flush(CLIENT_S)
    leader = world.kafka.existing_topic(topic).leader(0)
    getattr(world.kafka.broker(leader), rng.choice(["pause", "kill"]))()
    producer.abort_transaction(CLIENT_S)
    return topic


# -- brokers, network, disks, clock


def harm_broker(world: World, rng: Random) -> object:
    broker, how = rng.choice(world.kafka.brokers), rng.choice(["kill", "stop", "pause"])
    getattr(broker, how)()
    return how, broker


def harm_all(world: World, rng: Random) -> object:
    how = rng.choice(["kill", "stop", "pause"])
    for broker in world.kafka.brokers:
        getattr(broker, how)()
    return how


def mend_broker(world: World, rng: Random) -> object:
    """As a test that brings back what it has broken."""
    for handle in world.kafka.brokers:
        if handle.is_paused:
            return handle.resume(), handle
        if not handle.is_running:
            return handle.start(timeout_s=5), handle
    return rng.choice(world.kafka.brokers).restart(timeout_s=5)


def add_broker(world: World, rng: Random) -> object:
    return world.kafka.brokers.add()


def remove_broker(world: World, rng: Random) -> object:
    return world.kafka.broker(rng.choice(world.broker_ids)).remove()


def partition(world: World, rng: Random) -> object:
    ids = world.broker_ids
    rng.shuffle(ids)
    cut = rng.randint(1, len(ids) - 1)
    return world.kafka.brokers.partition(ids[:cut], ids[cut:]), ids, cut


def heal(world: World, rng: Random) -> object:
    return world.kafka.brokers.heal()


def break_requests(world: World, rng: Random) -> object:
    faults, api = world.kafka.faults, rng.choice(_APIS)
    where: dict[str, Any] = {"times": rng.choice([None, 1, 5])}
    ways: list[Callable[[], object]] = [
        lambda: faults.error(api, rng.choice(_ERRORS), **where),
        lambda: faults.delay(api, rng.randint(10, 60_000), **where),
        lambda: faults.drop_reply(api, **where),
        lambda: faults.disconnect(api, handled=rng.random() < 0.5, **where),
        lambda: faults.throttle(api, 1_000, **where),
        lambda: faults.break_reply(api, after_bytes=3, **where),
    ]
    return rng.choice(ways)()


def break_link(world: World, rng: Random) -> object:
    faults = world.kafka.faults
    sources: list[int | str] = ["clients", *world.broker_ids]
    source = rng.choice(sources)
    others = [each for each in world.broker_ids if each != source]
    target = rng.choice([None, *others])
    ways: list[Callable[[], object]] = [
        lambda: faults.cut_link(source, target),
        lambda: faults.stall_link(source, target),
        lambda: faults.slow_link(source, target, latency_ms=rng.randint(1, 1_000)),
    ]
    return rng.choice(ways)()


def clear_faults(world: World, rng: Random) -> object:
    """As `with` blocks of a test do; what was there before is not the test's to remove."""
    own = [fault for fault in world.kafka.faults.standing if "DESCRIBE_ACLS" not in str(fault)]
    return [fault.remove() for fault in own]


def break_disk(world: World, rng: Random) -> object:
    disk = world.kafka.faults.disk(rng.choice(world.broker_ids))
    directory = rng.choice([None, rng.randint(1, world.shape.log_dirs)])
    ways: list[Callable[[], object]] = [
        lambda: disk.fill(directory),
        lambda: disk.fail(directory),
        lambda: disk.protect(directory),
        lambda: disk.slow(rng.randint(1, 200)),
    ]
    return rng.choice(ways)(), disk.describe()


def move_clock(world: World, rng: Random) -> object:
    clock = world.kafka.clock
    ways: list[Callable[[], object]] = [
        lambda: clock.advance(seconds=rng.randint(1, 3_600)),
        lambda: clock.travel(datetime.now(UTC) + timedelta(minutes=rng.randint(1, 50))),
        clock.freeze,
        clock.resume,
    ]
    return rng.choice(ways)(), clock.describe()


# -- leaders and replicas


def reassign(world: World, rng: Random) -> object:
    """Moves replicas of a partition to other brokers, and does not wait."""
    name, ids = rng.choice([*world.kept, *world.made, "own"]), world.broker_ids
    replicas = rng.sample(ids, rng.randint(1, len(ids)))
    _Topic = AlterPartitionReassignmentsRequest.Topic
    wanted = _Topic.Partition(partition_index=0, replicas=replicas)
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=2_000, topics=[_Topic(name=name, partitions=[wanted])]
    )
    world.wire().call(request, 1, timeout_ms=2_000)
    return name, replicas


def move_leader(world: World, rng: Random) -> object:
    name = rng.choice(world.kept)
    to = rng.choice(world.kafka.existing_topic(name).partition().replicas)
    return world.kafka.existing_topic(name).move_leader(to=to, timeout_s=CLIENT_S)


def elect_controller(world: World, rng: Random) -> object:
    return world.kafka.broker(rng.choice(world.broker_ids)).become_controller(timeout_s=CLIENT_S)


def move_log_dir(world: World, rng: Random) -> object:
    """Moves replicas to another directory of their broker, and does not wait."""
    broker, name = rng.choice(world.brokers()), rng.choice(world.kept)
    partition = named.TopicPartition(name, 0)
    return broker.logs.move(partition, rng.choice(broker.logs.directories))


# -- the rest


def read_metrics(world: World, rng: Random) -> object:
    return len(list(world.kafka.metrics()))


def name_snapshot(world: World, rng: Random) -> object:
    return world.kafka.snapshot(rng.choice(["kept", "passing"]))


def open_page(world: World, rng: Random) -> object:
    return world.kafka.open_ui(browser=False)


def use_scratch(world: World, rng: Random) -> object:
    return world.kafka.scratch_dir(rng.choice([None, "checkpoint"]))


def snapshot_and_restore(world: World, rng: Random) -> object:
    kafka = world.kafka
    taken = kafka.snapshot()
    for _ in range(2):
        kafka.topic(world.new_name("topic"))
    kafka.restore(taken)
    return "restored"


def kill_clients(world: World, rng: Random) -> object:
    return world.kill_clients()


MOVES: dict[str, tuple[int, Move]] = {
    "create topic": (3, create_topic),
    "create by producing": (2, create_by_producing),
    "send": (4, send),
    "delete topic": (2, delete_topic),
    "delete records": (1, delete_records),
    "add partitions": (2, add_partitions),
    "roll": (1, roll),
    "set topic": (2, set_topic),
    "set broker": (2, set_broker),
    "set group": (1, set_group),
    "set quota": (2, set_quota),
    "add user": (1, add_user),
    "set acls": (2, set_acls),
    "create token": (1, create_token),
    "end token": (1, end_token),
    "change logins": (3, change_logins),
    "set logger": (1, set_logger),
    "commit to ZooKeeper": (1, commit_to_zookeeper),
    "move log dir": (2, move_log_dir),
    "read metrics": (1, read_metrics),
    "name snapshot": (1, name_snapshot),
    "open page": (1, open_page),
    "commit": (2, commit),
    "consume": (2, consume),
    "leave members": (4, leave_members),
    "delete group": (1, delete_group),
    "expire": (1, expire),
    "transact": (4, transact),
    "end transaction without a broker": (1, end_transaction_without_a_broker),
    "harm broker": (3, harm_broker),
    "harm all": (1, harm_all),
    "mend broker": (2, mend_broker),
    "add broker": (2, add_broker),
    "remove broker": (1, remove_broker),
    "partition": (2, partition),
    "heal": (1, heal),
    "break requests": (3, break_requests),
    "break link": (3, break_link),
    "clear faults": (1, clear_faults),
    "break disk": (2, break_disk),
    "move clock": (3, move_clock),
    "reassign": (3, reassign),
    "move leader": (2, move_leader),
    "elect controller": (2, elect_controller),
    "use scratch": (1, use_scratch),
    "snapshot and restore": (1, snapshot_and_restore),
    "kill clients": (1, kill_clients),
}
"""By name: how often a move is chosen, and what it does."""
