"""What a user can see of a cluster, compared before and after a block. Nothing is excused."""

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any

from confluent_kafka import TopicPartition

from embedkafka.broker.loggers import find_levels
from embedkafka.cluster.reports.description import find_views
from embedkafka.cluster.restoring.coordinated import find_coordinated
from embedkafka.wire.protocol.messages.core import MetadataRequest
from tests.chaos.isolation.world import KEPT_GROUP, World
from tests.cluster.members import await_true
from tests.presence import present

_METADATA = 12
_TIMEOUT_S = 20
_EXPECTED = ("! lag", "! fault")
"""A group that stays is behind the records that blocks add. Faults are compared by themselves."""


@dataclass(frozen=True)
class Seen:
    """By name, as plain values. Any: whatever can be compared and printed."""

    topics: Mapping[str, Any]
    groups: Mapping[str, Any]
    offsets: Mapping[str, Any]
    transactions: Mapping[str, Any]
    settings: Mapping[Any, Any]
    effective: Mapping[Any, Any]
    acls: Mapping[str, Any]
    tokens: Mapping[str, Any]
    faults: list[str]
    network: list[Any]
    clock: str | None
    brokers: Mapping[str, Any]
    scratch: list[str]
    revoked: Mapping[Any, Any]
    levels: Mapping[str, int]
    zk_groups: list[str]
    has_metrics: bool
    snapshots: Mapping[str, Any]
    pages: int
    refusals: Mapping[str, Any]
    controller: int | None
    log_dirs: Mapping[Any, Any]


def look(world: World) -> Seen:
    kafka = world.kafka
    brokers = kafka._require_brokers()
    coordinated = find_coordinated(brokers)
    running = world.brokers()
    scratch = kafka._isolation()._scratch_names()
    return Seen(
        topics={
            name: (str(topic.topic_id), {n: p.replicas for n, p in topic.partitions.items()})
            for name, topic in brokers.zk.topic_assignments(brokers.zk.topics()).items()
            if not name.startswith("__")
        },
        groups=dict(coordinated.groups),
        offsets=_committed(world, coordinated.groups),
        transactions=dict(coordinated.transactions),
        settings=brokers.zk.overrides(),
        effective=_effective(world),
        acls={
            str(broker.id): sorted(map(str, broker.authorizer.acls()))
            for broker in running
            if broker.authorizer is not None
        },
        tokens={
            str(broker.id): sorted(map(str, broker.tokens.all()))
            for broker in running
            if broker.tokens is not None
        },
        faults=kafka.faults.active,
        network=list(brokers.network.sides),
        clock=kafka.clock.describe(),
        brokers={str(handle.id): (handle.state.value, handle.address) for handle in kafka.brokers},
        scratch=sorted(scratch),
        revoked=brokers.find_revoked(),
        levels=find_levels(),
        zk_groups=sorted(brokers.zk.groups_with_offsets()),
        has_metrics=brokers.has_meters,
        snapshots={name: each.directory for name, each in kafka._require_snapshots().named.items()},
        pages=len(brokers.pages),
        refusals={
            str(broker.id): list(map(str, broker.authorizer.refusals()))
            for broker in running
            if broker.authorizer is not None
        },
        controller=kafka.brokers.controller,
        log_dirs={
            (broker.id, log.topic_partition): log.directory.parent.name
            for broker in running
            for log in broker.logs.all_logs()
            if log.topic_partition.topic in world.kept
        },
    )


def _committed(world: World, groups: Mapping[str, str]) -> dict[str, int]:
    if KEPT_GROUP not in groups:
        return {}
    consumer = world.consumer(KEPT_GROUP)
    (found,) = consumer.committed([TopicPartition("kept-0", 0)], timeout=_TIMEOUT_S)
    consumer.close()
    assert found.error is None, found
    return {KEPT_GROUP: found.offset}


def _effective(world: World) -> dict[Any, Any]:
    """The settings that brokers work with, of themselves and of topics."""
    found: dict[Any, Any] = {}
    for broker in world.brokers():
        config = broker.config
        found[broker.id, "broker"] = {
            key: config.broker[key] for key in ("log.cleaner.threads", "message.max.bytes")
        }
        for name in (*world.kept, "own"):
            found[broker.id, name] = str(config.log_config(name))
        found[broker.id, "groups"] = sorted(config.configured_groups())
    return found


def complaints(before: Seen, after: Seen) -> list[str]:
    """Each difference, in words."""
    found: list[str] = []
    for field in fields(Seen):
        was, now = getattr(before, field.name), getattr(after, field.name)
        if was == now:
            continue
        if isinstance(was, Mapping):
            found += [
                f"{field.name}: {key} was {was.get(key)} and is {now.get(key)}"
                for key in sorted(was.keys() | now.keys(), key=str)
                if was.get(key) != now.get(key)
            ]
        else:
            found.append(f"{field.name} were {was} and are {now}")
    return found


def unhealthy(world: World) -> list[str]:
    """What is not well with the cluster, as every one of its brokers says."""
    kafka = world.kafka
    troubles = [line for line in kafka.describe().splitlines() if line.startswith("!")]
    found = [line for line in troubles if not line.startswith(_EXPECTED)]
    ids = set(world.broker_ids)
    own_ids: set[tuple[str, str]] = set()
    for broker_id in sorted(ids):
        client = world.wire(broker_id)
        answer = client.call(MetadataRequest(topics=None), _METADATA)
        known = {broker.node_id for broker in answer.brokers}
        if known != ids:
            found.append(f"broker {broker_id} knows {sorted(known)}")
        if answer.controller_id not in ids:
            found.append(f"broker {broker_id} knows controller {answer.controller_id}")
        for topic in answer.topics:
            own_ids.add((topic.name, str(topic.topic_id)))
            for part in topic.partitions:
                where = f"broker {broker_id}: {topic.name}-{part.partition_index}"
                if topic.error_code or part.error_code:
                    found.append(f"{where} has error {topic.error_code or part.error_code}")
                if not set(part.replica_nodes) <= ids:
                    found.append(f"{where} is on {part.replica_nodes}")
                if part.leader_id != part.replica_nodes[0]:
                    found.append(f"{where} is led by {part.leader_id} of {part.replica_nodes}")
                if set(part.isr_nodes) != set(part.replica_nodes):
                    found.append(f"{where} has ISR {part.isr_nodes} of {part.replica_nodes}")
    with suppress(AssertionError):  # the markers of one that stays may be under way
        await_true(lambda: not open_transactions(world), _TIMEOUT_S)
    found += open_transactions(world)
    names = Counter(name for name, _ in own_ids)
    found += [f"brokers disagree on {name}" for name, count in names.items() if count > 1]
    try:
        kafka.check()
    except Exception as error:
        found.append(f"a thread has failed: {error}")
    return found


def open_transactions(world: World) -> list[str]:
    """The partitions with one, whether a coordinator knows of it or not."""
    return [
        f"{view.topic_partition} ends at {view.high_watermark} and is stable up to "
        f"{view.last_stable_offset}"
        for view, is_led in find_views(world.brokers())
        if is_led and view.last_stable_offset != view.high_watermark
    ]


def lost_records(world: World) -> list[str]:
    """What was acknowledged in topics that stay and is not there; what should not be there."""
    found = []
    for name in [name for name in world.kept if name not in world.gone]:
        messages = world.kafka.existing_topic(name).read()
        values = Counter(present(message.text) for message in messages)
        missing = world.acknowledged[name] - values
        if missing:
            found.append(f"{name} has lost {dict(missing)} of {dict(world.acknowledged[name])}")
        undecided = [value for value in values if value is not None and "open" in value]
        if undecided:
            found.append(f"{name} shows {undecided} of a transaction that was left open")
    own = world.kafka.existing_topic("own").read()
    if own:
        found.append(f"own has {[message.text for message in own]}")
    return found


def broken_services(world: World) -> list[str]:
    """Uses the cluster as the next test would: records, a group, a transaction."""
    name, group, txn = (world.new_name(kind) for kind in ("fresh", "fresh-group", "fresh-txn"))
    kafka = world.kafka
    topic = kafka.topic(name, partitions=2, replication=len(world.broker_ids))
    topic.send("plain", partition=0)
    producer = world.producer(transactional_id=txn)
    producer.init_transactions(_TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(name, "in a transaction", partition=1)
    producer.commit_transaction(_TIMEOUT_S)
    consumer = world.consumer(group, isolation_level="read_committed")
    consumer.subscribe([name])
    values = set()
    for _ in range(2):
        message = consumer.poll(_TIMEOUT_S)
        if message is None or message.error():
            return [f"a consumer got {values}, then {message and message.error()}"]
        values.add(message.value())
    consumer.commit(asynchronous=False)
    consumer.close()
    wanted = {b"plain", b"in a transaction"}
    return [] if values == wanted else [f"a consumer got {values}"]
