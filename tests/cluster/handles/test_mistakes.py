"""A user's mistake raises our error at once; the error names the mistake and the remedy."""

import errno
import inspect
import math
import os
import re
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import embedkafka
from embedkafka import (
    Acl,
    Acls,
    BrokerHandles,
    Cluster,
    ClusterClosed,
    ClusterConfig,
    ConfigError,
    Disk,
    EmbeddedKafka,
    EmbeddedKafkaTestCase,
    EmbedKafkaError,
    Fault,
    FaultPlan,
    Faults,
    GroupHandle,
    InvalidArgument,
    Logins,
    Message,
    Metrics,
    OwnedBroker,
    OwnedBrokers,
    OwnedGroup,
    OwnedTopic,
    Quotas,
    Security,
    Snapshot,
    SystemClock,
    Topic,
    TopicSpec,
    UndecodableMessage,
    cli,
)
from embedkafka.cluster.client_reach import ClientReach

ACL = Acl.allow("job", "READ", topic="orders")
#: Any: they get arguments of wrong types.
ANY_ACL: Any = Acl
ANY_SECURITY: Any = Security

CONSTRUCTIONS: list[tuple[dict[str, Any], str]] = [
    ({"brokers": "3"}, r"brokers must be a whole number from 1 to 1000, got '3'"),
    ({"brokers": 0}, r"brokers must be .* from 1 to 1000, got 0"),
    ({"brokers": True}, r"brokers must be .* got True"),
    ({"brokers": 2.5}, r"brokers must be .* got 2.5"),
    ({"config": ["num.partitions=3"]}, r"config must be a mapping such as .*num.partitions"),
    ({"config": {3: 4}}, r"the name of a setting must be text .* got 3"),
    ({"config": {"num.partition": 3}}, r"num.partition.* did you mean num.partitions"),
    ({"config": {"num.partitions": "many"}}, r"many for configuration num.partitions"),
    ({"config": {"broker.id": "first"}}, r"first for configuration broker.id"),
    ({"config": {"advertised.listeners": "here"}}, r"'here' is not NAME://host:port"),
    ({"topics": ["orders"]}, r'topics must be a mapping such as {"orders": 3}'),
    (
        {"topics": {"orders": "3"}},
        r"topics\['orders'\] must be a whole number from 1 to 2147483647, got '3'",
    ),
    ({"topics": {"orders": 0}}, r"topics\['orders'\] must be .* got 0"),
    ({"topics": {"": 1}}, r"a topic's name must be text"),
    ({"topics": {"my orders": 1}}, r"'my orders' cannot be a topic's name: .*characters"),
    ({"data_dir": 5}, r"data_dir must be a path, got 5"),
    ({"data_dir": ""}, r"data_dir must be a path, got ''"),
    ({"data_dir": "a\0b"}, r"data_dir must be a path that a file can have, got 'a\\x00b'"),
    ({"config": {"num.partitions": math.nan}}, r"NaN for configuration num.partitions"),
    ({"config": {"broker.rack": None}}, r"broker.rack must be text, a number or a list, got None"),
    ({"config": {"broker.rack": "\ud800"}}, r"broker.rack cannot be written as UTF-8"),
    ({"host": ""}, r"host must be text that is not empty"),
    ({"host": 7}, r"host must be text .* got 7"),
    ({"port": "9092"}, r"port must be a whole number from 0 to 65535, got '9092'"),
    ({"port": -1}, r"port must be .* got -1"),
    ({"port": 65535, "brokers": 3}, r"port must be .* from 0 to 65533, got 65535"),
    ({"racks": "ab", "brokers": 2}, r"racks must be a list such as"),
    ({"racks": [1, 2], "brokers": 2}, r"racks must be a list such as"),
    ({"racks": ["a"], "brokers": 2}, r"one entry for each of the 2 brokers, got 1: \['a'\]"),
    ({"zookeeper": ""}, r"zookeeper must be text"),
    ({"zookeeper": 2181}, r"zookeeper must be text .* got 2181"),
    ({"durability": "fsync"}, r'durability must be "kill" or "power", got \'fsync\''),
    ({"defaults": "real"}, r'defaults must be "tests" or "kafka", got \'real\''),
    ({"durability": "power"}, r'durability="power" needs data_dir='),
    (
        {"durability": "power", "data_dir": "d", "config": {"log.flush.interval.messages": 9}},
        r'durability="power" syncs every write: remove log.flush.interval.messages=9, or take',
    ),
    ({"log_dirs": 0}, r"log_dirs must be .* got 0"),
    ({"log_dirs": "2"}, r"log_dirs must be .* got '2'"),
    ({"seed": "seven"}, r"seed must be a whole number, got 'seven'"),
]

SPECS: list[tuple[dict[str, Any], str]] = [
    ({"partitions": 0}, r"partitions must be a whole number from 1 to 2147483647, got 0"),
    ({"partitions": "3"}, r"partitions must be .* got '3'"),
    ({"replication": 0}, r"replication must be .* got 0"),
    ({"replication": "all"}, r"replication must be .* got 'all'"),
    ({"config": "compact"}, r"config must be a mapping"),
    ({"config": {"cleanup": "compact"}}, r"cleanup"),
    ({"config": {"retention.ms": "long"}}, r"long for configuration retention.ms"),
]

#: Invalid calls by method. Any: their arguments have wrong types on purpose.
CALLS: dict[Any, list[tuple[Callable[[Any], object], str]]] = {
    Acls.add: [(lambda kafka: kafka.acls.add("x"), "an Acl such as .* got 'x'")],
    Acls.remove: [(lambda kafka: kafka.acls.remove(ACL), "no authorizer: set authorizer.class")],
    Acls.replace: [(lambda kafka: kafka.acls.replace(["x"]), "an Acl such as .* got 'x'")],
    Logins.revoke: [(lambda kafka: kafka.logins.revoke("x"), "no listener .* asks for SASL")],
    Logins.set_password: [
        (lambda kafka: kafka.logins.set_password("x", "y"), "no listener .* asks for SASL"),
        (lambda kafka: kafka.logins.set_password("x", "y", "PLAIN"), "mechanism must be one of"),
    ],
    Logins.expire_tokens: [
        (lambda kafka: kafka.logins.expire_tokens("x"), "'x' has no delegation tokens")
    ],
    Quotas.describe: [(lambda kafka: kafka.quotas.describe(), 'say whom .* such as user="job"')],
    Quotas.set: [
        (lambda kafka: kafka.quotas.set(producer_byte_rate=1), 'say whom .* such as user="job"'),
        (lambda kafka: kafka.quotas.set(user=5, producer_byte_rate=1), "user must be text"),
        (lambda kafka: kafka.quotas.set(user="x"), "name a limit, such as producer_byte_rate="),
        (lambda kafka: job_quota(kafka, producer_byte_rate="x"), "a number .* got 'x'"),
        (lambda kafka: job_quota(kafka, producer_byte_rate=-1), "a number .* got -1"),
        (lambda kafka: job_quota(kafka, producer_byte_rate=0), "must be greater than 0"),
        (lambda kafka: job_quota(kafka, producer_byte_rate=1.5), "cannot be a fractional value"),
        (lambda kafka: job_quota(kafka, connection_creation_rate=1), "key connection_creation"),
        (lambda kafka: job_quota(kafka, ip="::1", consumer_byte_rate=1), "is for an ip alone"),
        (lambda kafka: kafka.quotas.set(ip="x", connection_creation_rate=1), "not a valid IP"),
    ],
    Quotas.remove: [
        (lambda kafka: kafka.quotas.remove(client_id="job"), "client-id job has no quota"),
        (
            lambda kafka: kafka.quotas.remove("producer_byte_rat", client_id="job"),
            r"did you mean producer_byte_rate\?",
        ),
    ],
    Metrics.total: [
        (lambda kafka: kafka.metrics().total("Sice"), "no metric 'Sice'; did you mean 'Size'")
    ],
    EmbeddedKafka.report: [
        (lambda kafka: kafka.report(listener=5), r"the listener must be text, got 5"),
        (lambda kafka: kafka.report(since=1), r"since must be what `kafka.mark\(\)` returned"),
    ],
    EmbeddedKafka.open_ui: [
        (lambda kafka: kafka.open_ui(port="x"), "port must be .* from 0 to 65535, got 'x'"),
        (lambda kafka: kafka.open_ui(port=-1), "port must be .* got -1"),
        (
            lambda kafka: kafka.open_ui(port=busy_port(kafka), browser=False),
            "cannot serve the page",
        ),
    ],
    GroupHandle.lag: [
        (lambda kafka: kafka.group("").lag(), "group must be text"),
        (lambda kafka: kafka.group("g").lag(3), "topic must be text"),
    ],
    GroupHandle.await_stable: [
        (lambda kafka: kafka.group("").await_stable(), "group must be text"),
        (lambda kafka: kafka.group("g").await_stable(timeout_s=-1), "timeout_s must be"),
    ],
    OwnedTopic.await_retention: [
        (lambda kafka: kafka.existing_topic("payments").await_retention(), "no topic 'payments'")
    ],
    OwnedTopic.await_compaction: [
        (lambda kafka: kafka.existing_topic("payments").await_compaction(), "no topic 'payments'"),
        (
            lambda kafka: orders(kafka).await_compaction(),
            "orders is not compacted",
        ),
    ],
    EmbeddedKafka.state_changes: [
        (lambda kafka: kafka.state_changes(1), "topic must be text"),
        (lambda kafka: kafka.state_changes(partition=-1), "partition must be .* got -1"),
        (lambda kafka: kafka.state_changes(since=1), "since must be"),
    ],
    EmbeddedKafka.controller_events: [
        (lambda kafka: kafka.controller_events(1), "the kind of event must be text"),
        (lambda kafka: kafka.controller_events("BrokerChanged"), "did you mean BrokerChange"),
        (lambda kafka: kafka.controller_events(since=1), "since must be"),
    ],
    EmbeddedKafka.requests: [
        (lambda kafka: kafka.requests("fetsh"), r"no Kafka API 'FETSH': did you mean FETCH\?"),
        (lambda kafka: kafka.requests("OffsetFetsh"), r"did you mean OFFSET_FETCH\?"),
        (lambda kafka: kafka.requests(1), r"api must be text .* got 1"),
        (lambda kafka: kafka.requests(topic=""), r"topic must be text"),
        (lambda kafka: kafka.requests(group=1), r"group must be text"),
        (lambda kafka: kafka.requests(client_id=1), r"client_id must be text"),
        (lambda kafka: kafka.requests(broker=9), r"no broker 9"),
        (lambda kafka: kafka.requests(error="NOT_LEADER"), r"did you mean NOT_LEADER_OR_FOLLOWER"),
        (lambda kafka: kafka.requests(since=1), r"since must be what `kafka.mark\(\)` returned"),
    ],
    SystemClock.travel: [
        (lambda kafka: kafka.clock.travel(to="tomorrow"), r"a datetime with a time zone"),
    ],
    OwnedTopic.move_leader: [
        (lambda kafka: kafka.existing_topic("nope").move_leader(to=1), r"no topic 'nope'"),
        (lambda kafka: orders(kafka).move_leader(7, to=1), r"no partition 7"),
        (lambda kafka: orders(kafka).move_leader(to=9), r"no broker 9"),
        (
            lambda kafka: orders(kafka).move_leader(to=3 - orders(kafka).leader()),
            r"has no replica of orders-0; its replicas are on",
        ),
        (
            lambda kafka: orders(kafka).move_leader(to=1, timeout_s=-1),
            r"timeout_s must be",
        ),
    ],
    OwnedBroker.become_controller: [
        (lambda kafka: kafka.broker(9).become_controller(), r"no broker 9"),
        (lambda kafka: kafka.broker(1).become_controller(timeout_s=-1), r"timeout_s must be"),
    ],
    OwnedTopic.roll: [(lambda kafka: kafka.existing_topic("nope").roll(), r"no topic 'nope'")],
    OwnedTopic.compact: [
        (lambda kafka: kafka.existing_topic("nope").compact(), r"no topic 'nope'"),
        (lambda kafka: orders(kafka).compact(), r"orders is not compacted"),
    ],
    OwnedGroup.expire: [
        (lambda kafka: kafka.group("").expire(), r"group must be text"),
        (lambda kafka: kafka.group("nope").expire(), r"no such group"),
        (lambda kafka: kafka.group("nope").expire(timeout_s=-1), r"timeout_s must be"),
    ],
    EmbeddedKafka.scratch_dir: [
        (lambda kafka: kafka.scratch_dir(""), r"name must be text"),
        (lambda kafka: kafka.scratch_dir(5), r"name must be text"),
        (lambda kafka: kafka.scratch_dir("../elsewhere"), r"below the scratch directory"),
        (lambda kafka: kafka.scratch_dir("/elsewhere"), r"below the scratch directory"),
        (lambda kafka: kafka.scratch_dir("a\0b"), r"name cannot contain NUL"),
        (lambda kafka: kafka.scratch_dir("a" * 300), os.strerror(errno.ENAMETOOLONG)),
    ],
    Cluster.broker: [
        (lambda kafka: outside(kafka).broker(9), r"no broker 9; there are 1, 2"),
        (lambda kafka: outside(kafka).broker("1"), r"broker's id must be a whole number, got '1'"),
    ],
    EmbeddedKafka.broker: [
        (lambda kafka: kafka.broker(9), r"no broker 9; there are 1, 2"),
        (lambda kafka: kafka.broker("1"), r"broker's id must be a whole number, got '1'"),
        (lambda kafka: kafka.broker(None), r"broker's id must be .* got None"),
    ],
    OwnedBroker.remove: [
        (lambda kafka: kafka.broker(9).remove(), r"no broker 9; there are 1, 2"),
    ],
    OwnedBrokers.partition: [
        (lambda kafka: kafka.brokers.partition(), r"needs sides, such as"),
        (lambda kafka: kafka.brokers.partition(1, 2), r"a set of broker ids such as {1, 2}, got 1"),
        (
            lambda kafka: kafka.brokers.partition("12"),
            r"a set of broker ids such as {1, 2}, got '12'",
        ),
        (lambda kafka: kafka.brokers.partition({1}, {9}), r"no broker 9; there are 1, 2"),
        (lambda kafka: kafka.brokers.partition({1}, {2}), r"equally large: say with `zookeeper=`"),
        (lambda kafka: kafka.brokers.partition({1}, {1, 2}), r"broker 1 is on two sides"),
        (lambda kafka: kafka.brokers.partition({1}, {2}, zookeeper={9}), r"no broker 9"),
        (lambda kafka: kafka.brokers.partition({1}, {2}, zookeeper=2), r"zookeeper must be a set"),
    ],
    EmbeddedKafka.restore: [
        (lambda kafka: kafka.restore(5), r"what `kafka.snapshot\(\)` returned, got 5"),
        (lambda kafka: kafka.restore("yesterday"), r"there is no snapshot 'yesterday'; there are"),
        (lambda kafka: kafka.restore(another_snapshot()), r"a snapshot of another cluster"),
    ],
    Cluster.transaction_coordinator: [
        (lambda kafka: kafka.transaction_coordinator(1), r"transactional_id must be text"),
        (
            lambda kafka: kafka.transaction_coordinator("t"),
            r"'t' has no coordinator: no client has used transactions yet",
        ),
    ],
    Topic.leader: [
        (
            lambda kafka: kafka.existing_topic("nope").leader(),
            r"no topic 'nope'; there are .*orders",
        ),
        (
            lambda kafka: orders(kafka).leader(7),
            r"orders has no partition 7: it has 2, from",
        ),
        (
            lambda kafka: orders(kafka).leader(-1),
            r"partition must be .* from 0 on, got -1",
        ),
        (lambda kafka: orders(kafka).leader("0"), r"partition must be .* got '0'"),
    ],
    Cluster.group: [
        (lambda kafka: kafka.group(""), r"group must be text"),
        (lambda kafka: kafka.group(5), r"group must be text .* got 5"),
    ],
    EmbeddedKafka.group: [(lambda kafka: kafka.group(None), r"group must be text")],
    OwnedTopic.explain: [
        (lambda kafka: kafka.existing_topic("nope").explain(), r"no topic 'nope'"),
        (lambda kafka: orders(kafka).explain(7), r"no partition 7"),
    ],
    OwnedTopic.followers: [
        (lambda kafka: kafka.existing_topic("nope").followers(), r"no topic 'nope'"),
        (lambda kafka: orders(kafka).followers(7), r"no partition 7"),
    ],
    Topic.partition: [
        (lambda kafka: kafka.existing_topic("nope").partition(), r"no topic 'nope'"),
        (lambda kafka: orders(kafka).partition(7), r"no partition 7"),
    ],
    BrokerHandles.await_all: [
        (lambda kafka: kafka.brokers.await_all(timeout_s=-1), r"timeout_s must be .* got -1"),
        (lambda kafka: kafka.brokers.await_all(timeout_s="1"), r"timeout_s must be .* got '1'"),
        (
            lambda kafka: kafka.brokers.await_all(timeout_s=float("nan")),
            r"timeout_s must be .* got nan",
        ),
    ],
    BrokerHandles.await_controller: [
        (
            lambda kafka: kafka.brokers.await_controller(timeout_s=-1),
            r"timeout_s must be .* got -1",
        ),
    ],
    Topic.await_leader: [
        (lambda kafka: kafka.existing_topic("nope").await_leader(), r"no topic 'nope'"),
        (lambda kafka: orders(kafka).await_leader(7), r"no partition 7"),
        (
            lambda kafka: orders(kafka).await_leader(timeout_s=-1),
            r"timeout_s must be",
        ),
    ],
    Topic.await_no_leader: [
        (lambda kafka: kafka.existing_topic("nope").await_no_leader(), r"no topic 'nope'"),
        (
            lambda kafka: orders(kafka).await_no_leader(timeout_s=None),
            r"timeout_s must be",
        ),
    ],
    Topic.await_isr: [
        (lambda kafka: kafka.existing_topic("nope").await_isr(size=1), r"no topic 'nope'"),
        (
            lambda kafka: orders(kafka).await_isr(size="1"),
            r"size must be .* got '1'",
        ),
        (
            lambda kafka: orders(kafka).await_isr(size=-1),
            r"size must be .* got -1",
        ),
        (
            lambda kafka: orders(kafka).await_isr(size=1, timeout_s=-1),
            r"timeout_s must be",
        ),
    ],
    Cluster.await_no_under_replicated: [
        (lambda kafka: kafka.await_no_under_replicated(timeout_s=-1), r"timeout_s must be"),
    ],
    Cluster.topic: [
        (lambda kafka: kafka.topic(""), r"a topic's name must be text"),
        (lambda kafka: kafka.topic(5), r"a topic's name must be text .* got 5"),
        (lambda kafka: kafka.topic("a b"), r"'a b' cannot be a topic's name"),
        (lambda kafka: kafka.topic("a" * 250), r"longer than the max allowed length 249"),
        (lambda kafka: kafka.topic("orders"), r"TOPIC_ALREADY_EXISTS.*`existing_topic`"),
        (lambda kafka: kafka.topic("new", partitions=0), r"partitions must be .* got 0"),
        (lambda kafka: kafka.topic("new", partitions="3"), r"partitions must be .* got '3'"),
        (lambda kafka: kafka.topic("new", replication=3), r"only 2 broker\(s\) are registered"),
        (lambda kafka: kafka.topic("new", replication=0), r"replication must be .* got 0"),
        (lambda kafka: kafka.topic("new", config={"retention": 1}), r"retention"),
        (lambda kafka: kafka.topic("new", config="compact"), r"config must be a mapping"),
    ],
    Cluster.existing_topic: [
        (lambda kafka: kafka.existing_topic(""), r"name must be text"),
        (lambda kafka: kafka.existing_topic("orders", timeout_s=-1), r"timeout_s must be"),
        (lambda kafka: kafka.existing_topic("no", timeout_s=0.1), r"waited 0.1 s for topic no to"),
        (lambda kafka: kafka.existing_topic("nope"), r"no topic 'nope'.*`kafka.topic` creates"),
        (lambda kafka: kafka.existing_topic(5), r"name must be text .* got 5"),
    ],
    Topic.add_partitions: [
        (lambda kafka: kafka.existing_topic("nope").add_partitions(3), r"no topic 'nope'"),
        (lambda kafka: orders(kafka).add_partitions(1), r"INVALID_PARTITIONS"),
        (
            lambda kafka: orders(kafka).add_partitions("3"),
            r"count must be .* got '3'",
        ),
    ],
    Topic.delete: [
        (lambda kafka: kafka.existing_topic("nope").delete(), r"no topic 'nope'"),
        (lambda kafka: orders(kafka).delete(timeout_s=-1), r"timeout_s must be"),
    ],
    Topic.await_gone: [
        (lambda kafka: orders(kafka).await_gone(timeout_s=-1), r"timeout_s must be"),
    ],
    OwnedBroker.start: [
        (lambda kafka: kafka.broker(1).start(), r"broker 1 cannot start: it is running"),
        (lambda kafka: kafka.broker(1).start(timeout_s=-1), r"timeout_s must be"),
    ],
    OwnedBroker.resume: [
        (lambda kafka: kafka.broker(1).resume(), r"broker 1 cannot resume: it is running"),
    ],
    OwnedBroker.restart: [
        (lambda kafka: kafka.broker(1).restart(timeout_s="1"), r"timeout_s must be"),
    ],
    Topic.send: [
        (lambda kafka: orders(kafka).send(5), r"value must be text, bytes or None, got 5"),
        (lambda kafka: orders(kafka).send({"a": 1}), r"`send_json` writes other values"),
        (lambda kafka: orders(kafka).send("v", key=5), r"got 5; encode it first, with `str`"),
        (lambda kafka: orders(kafka).send("\ud800"), r"value cannot be written as UTF-8"),
        (lambda kafka: orders(kafka).send("v", key="\ud800"), r"key cannot be written as UTF-8"),
        (lambda kafka: orders(kafka).send("v", headers={"\ud800": "a"}), r"name cannot be written"),
        (lambda kafka: orders(kafka).send("v", headers={"a\0b": "a"}), r"cannot contain NUL"),
        (lambda kafka: orders(kafka).send("v", partition=2**31), r"from 0 to 2147483647"),
        (lambda kafka: orders(kafka).send("v", timestamp_ms=2**63), r"to 9223372036854775807"),
        (lambda kafka: orders(kafka).send("v", partition=-1), r"partition must be .* got -1"),
        (lambda kafka: orders(kafka).send("v", partition="0"), r"partition must be .* got '0'"),
        (lambda kafka: orders(kafka).send("v", partition=9), r"partition"),
        (lambda kafka: orders(kafka).send("v", headers=5), r"headers must be a mapping such as"),
        (lambda kafka: orders(kafka).send("v", headers=["a"]), r"headers must be a mapping"),
        (lambda kafka: orders(kafka).send("v", headers={"a": 1}), r"a header must be text, bytes"),
        (lambda kafka: orders(kafka).send("v", headers={1: "a"}), r"a header's name must be text"),
        (lambda kafka: orders(kafka).send("v", timestamp_ms=-5), r"timestamp_ms must be .* got -5"),
        (lambda kafka: orders(kafka).send("v", timestamp_ms="now"), r"timestamp_ms must be"),
    ],
    Topic.send_json: [
        (lambda kafka: orders(kafka).send_json({}, key=5), r"got 5; encode it first, with `str`"),
        (lambda kafka: orders(kafka).send_json(object()), r"cannot be written as JSON"),
        (lambda kafka: orders(kafka).send_json({}, partition=-1), r"partition must be"),
    ],
    EmbeddedKafka.snapshot: [(lambda kafka: kafka.snapshot(""), r"name must be text")],
    Topic.follow: [
        (lambda kafka: next(orders(kafka).follow(timeout_s=-1)), r"timeout_s must be"),
        (lambda kafka: next(orders(kafka).follow(isolation="none")), r"isolation level"),
        (lambda kafka: next(orders(kafka).follow(from_="start")), r"from_ must be"),
    ],
    Topic.send_many: [
        (lambda kafka: orders(kafka).send_many(["a"], keys=[]), r"1 values and 0 keys"),
        (lambda kafka: orders(kafka).send_many(["a"], headers=5), r"headers must be a list"),
        (lambda kafka: orders(kafka).send_many(["a"], partitions=["x"]), r"a partition must be"),
        (lambda kafka: orders(kafka).send_many("abc"), r'a list such as \["a", "b"\], got .abc.'),
        (lambda kafka: orders(kafka).send_many(5), r"values must be a list"),
        (lambda kafka: orders(kafka).send_many(["a", 5]), r"value must be text, bytes or None"),
    ],
    Topic.read: [
        (lambda kafka: orders(kafka).read(from_=-1), r"from_ must be"),
        (lambda kafka: orders(kafka).read("3"), r"records to wait for must be .* got '3'"),
        (lambda kafka: orders(kafka).read(-1), r"records to wait for must be .* got -1"),
        (lambda kafka: orders(kafka).read(timeout_s=-1), r"timeout_s must be"),
        (lambda kafka: orders(kafka).read(isolation="serial"), r"no isolation level 'serial'"),
        (lambda kafka: orders(kafka).read(isolation=5), r"isolation level must be text, got 5"),
    ],
    Topic.read_json: [
        (lambda kafka: orders(kafka).read_json("3"), r"records to wait for must be .* got '3'"),
        (lambda kafka: orders(kafka).read_json(timeout_s=-1), r"timeout_s must be"),
    ],
    Topic.wait_for: [
        (lambda kafka: orders(kafka).wait_for("3"), r"records to wait for must be .* got '3'"),
        (lambda kafka: orders(kafka).wait_for(-1), r"records to wait for must be .* got -1"),
        (lambda kafka: orders(kafka).wait_for(1, timeout_s=-1), r"timeout_s must be"),
    ],
    Topic.write: [
        (lambda kafka: orders(kafka).write([{"a": 1}]), r"df must be a DataFrame, got"),
    ],
    GroupHandle.await_state: [
        (lambda kafka: kafka.group("").await_state(), r"group must be text"),
        (lambda kafka: kafka.group("g").await_state(members=-1), r"members must be .* got -1"),
        (lambda kafka: kafka.group("g").await_state(state="Stabel"), r"did you mean Stable"),
        (lambda kafka: kafka.group("g").await_state(timeout_s="1"), r"timeout_s must be"),
    ],
    GroupHandle.await_lag: [
        (lambda kafka: kafka.group(5).await_lag(), r"group must be text .* got 5"),
        (lambda kafka: kafka.group("g").await_lag(-1), r"lag must be .* got -1"),
        (lambda kafka: kafka.group("g").await_lag(timeout_s="1"), r"timeout_s must be"),
    ],
    Topic.await_offsets: [
        (lambda kafka: orders(kafka).await_offsets(-1), r"offsets .* got -1"),
        (lambda kafka: orders(kafka).await_offsets({0: "5"}), r"offset.* got '5'"),
        (
            lambda kafka: orders(kafka).await_offsets(1, timeout_s="1"),
            r"timeout_s must be",
        ),
    ],
    Topic.stream: [
        (lambda kafka: orders(kafka).stream(None), r"spark must be a SparkSession, got None"),
    ],
    Topic.to_df: [
        (lambda kafka: orders(kafka).to_df(None), r"spark must be a SparkSession, got None"),
    ],
    Faults.error: [
        (lambda kafka: kafka.faults.error("PRODUCED", "INVALID_RECORD"), r"did you mean PRODUCE\?"),
        (lambda kafka: kafka.faults.error(0, "INVALID_RECORD"), r"api must be text .* got 0"),
        (lambda kafka: kafka.faults.error("FETCH", "NOT_LEADER"), r"no Kafka error 'NOT_LEADER'"),
        (lambda kafka: kafka.faults.error("FETCH", 6), r"code must be text .* got 6"),
        (lambda kafka: kafka.faults.error("METADATA", "INVALID_RECORD"), r"no field for an error"),
        (lambda kafka: error(kafka, brokr=1), r"no filter 'brokr': did you mean broker\?"),
        (lambda kafka: error(kafka, broker=9), r"no broker 9; there are 1, 2"),
        (lambda kafka: error(kafka, broker="1"), r"broker's id must be .* got '1'"),
        (lambda kafka: error(kafka, topic=""), r"topic must be text"),
        (lambda kafka: error(kafka, topics="orders"), r"no filter 'topics': did you mean topic\?"),
        (lambda kafka: error(kafka, users="alice"), r"no filter 'users': did you mean user\?"),
        (lambda kafka: error(kafka, client_id=5), r"client_id must be text .* got 5"),
        (lambda kafka: error(kafka, user=""), r"user must be text"),
        (lambda kafka: error(kafka, when=True), r"when must be a function .* got True"),
        (lambda kafka: error(kafka, nth=0), r"nth must be .* got 0"),
        (lambda kafka: error(kafka, probability=1.5), r"probability must be from 0 to 1, got 1.5"),
        (lambda kafka: error(kafka, partition=-1), r"partition must be .* got -1"),
        (lambda kafka: error(kafka, group=5), r"group must be text .* got 5"),
        (lambda kafka: error(kafka, transactional_id=5), r"transactional_id must be text"),
        (lambda kafka: error(kafka, times=0), r"times must be .* from 1 on, got 0"),
        (lambda kafka: error(kafka, times="2"), r"times must be .* got '2'"),
        (lambda kafka: error(kafka, after=-1), r"after must be .* from 0 on, got -1"),
    ],
    Faults.delay: [
        (lambda kafka: kafka.faults.delay("FETCH", -1), r"ms must be .* got -1"),
        (lambda kafka: kafka.faults.delay("FETCH", "1"), r"ms must be .* got '1'"),
        (lambda kafka: kafka.faults.delay("fetsh", 1), r"no Kafka API 'FETSH'"),
        (lambda kafka: kafka.faults.delay("FETCH", 1, tpic="a"), r"did you mean topic\?"),
    ],
    Faults.drop_reply: [
        (lambda kafka: kafka.faults.drop_reply("fetsh"), r"no Kafka API 'FETSH'"),
        (lambda kafka: kafka.faults.drop_reply("FETCH", broker=9), r"no broker 9"),
    ],
    Faults.disconnect: [
        (lambda kafka: kafka.faults.disconnect("fetsh"), r"no Kafka API 'FETSH'"),
        (lambda kafka: kafka.faults.disconnect("FETCH", times=-1), r"times must be"),
    ],
    Faults.throttle: [
        (lambda kafka: kafka.faults.throttle("fetsh", 1), r"no Kafka API 'FETSH'"),
        (lambda kafka: kafka.faults.throttle("FETCH", -1), r"ms must be .* got -1"),
        (lambda kafka: kafka.faults.throttle("FETCH", 1.5), r"ms must be .* got 1.5"),
        (lambda kafka: kafka.faults.throttle("SaslHandshake", 1), r"have no throttle time"),
    ],
    Faults.break_reply: [
        (lambda kafka: kafka.faults.break_reply("fetsh", after_bytes=1), r"no Kafka API 'FETSH'"),
        (lambda kafka: kafka.faults.break_reply("FETCH", after_bytes=-1), r"after_bytes must be"),
    ],
    Faults.slow_link: [
        (lambda kafka: kafka.faults.slow_link("clients"), r"say how slow"),
        (lambda kafka: kafka.faults.slow_link("client", 1, latency_ms=1), r"or 'clients', got"),
        (lambda kafka: kafka.faults.slow_link(1, 9, latency_ms=1), r"no broker 9"),
        (lambda kafka: kafka.faults.slow_link(1, 1, latency_ms=1), r"no link to itself"),
        (lambda kafka: kafka.faults.slow_link(1, 2, latency_ms=-1), r"latency_ms must be"),
        (lambda kafka: kafka.faults.slow_link(1, 2, jitter_ms="1"), r"jitter_ms must be"),
        (lambda kafka: kafka.faults.slow_link(1, 2, bytes_per_s=0), r"more than 0: `stall_link`"),
    ],
    Faults.cut_link: [(lambda kafka: kafka.faults.cut_link(9, 1), r"no broker 9")],
    Faults.stall_link: [(lambda kafka: kafka.faults.stall_link(1, 9), r"no broker 9")],
    Disk.slow: [(lambda kafka: kafka.faults.disk(1).slow(-1), r"write_ms must be .* got -1")],
    Disk.flip_bit: [
        (lambda kafka: kafka.faults.disk(1).flip_bit("nope"), r"holds no record of nope-0"),
        (
            lambda kafka: kafka.faults.disk(1).flip_bit("orders", offset=77),
            r"holds no record 77 of orders-0",
        ),
        (lambda kafka: kafka.faults.disk(1).flip_bit(""), r"topic must be text"),
        (lambda kafka: kafka.faults.disk(1).flip_bit("orders", -1), r"partition must be"),
    ],
    Disk.tear: [(lambda kafka: kafka.faults.disk(1).tear("orders"), r"kill the broker first")],
    Faults.plan: [
        (lambda kafka: kafka.faults.plan(allow=["kil"]), r"did you mean kill\?"),
        (lambda kafka: kafka.faults.plan(allow=["partition"]), r"no fault for a plan 'partition'"),
        (
            lambda kafka: kafka.faults.plan(allow="kill"),
            r"allow must be a list such as .'kill'., got 'kill'",
        ),
        (lambda kafka: kafka.faults.plan(allow=[]), r"must name one fault at least"),
        (lambda kafka: kafka.faults.plan(steps=0), r"steps must be .* got 0"),
        (lambda kafka: kafka.faults.plan(seed="7"), r"seed must be .* got '7'"),
    ],
    Faults.disk: [
        (lambda kafka: kafka.faults.disk(9), r"no broker 9; there are 1, 2"),
        (lambda kafka: kafka.faults.disk("1"), r"broker's id must be .* got '1'"),
    ],
    Fault.await_hits: [
        (lambda kafka: fault(kafka).await_hits(0), r"count must be .* got 0"),
        (lambda kafka: fault(kafka).await_hits(timeout_s=-1), r"timeout_s must be"),
    ],
    Disk.fill: [
        (lambda kafka: kafka.faults.disk(1).fill(9), r"directory must be .* from 1 to 1, got 9"),
        (lambda kafka: kafka.faults.disk(1).fill(0), r"directory must be .* got 0"),
    ],
    Disk.fail: [(lambda kafka: kafka.faults.disk(1).fail("a"), r"directory must be .* got 'a'")],
    Disk.protect: [(lambda kafka: kafka.faults.disk(1).protect(9), r"directory must be .* got 9")],
    SystemClock.advance: [
        (lambda kafka: kafka.clock.advance(-1), r"time cannot go back, got -1 ms"),
        (lambda kafka: kafka.clock.advance(days=-1), r"time cannot go back"),
        (lambda kafka: kafka.clock.advance("1"), r"ms must be a number, got '1'"),
        (lambda kafka: kafka.clock.advance(hours=float("inf")), r"hours must be a number, got inf"),
    ],
    EmbeddedKafka.client_config: [
        (lambda kafka: kafka.client_config("alice"), r"this cluster has no users"),
    ],
    EmbeddedKafka.java_properties: [
        (lambda kafka: kafka.java_properties(7), r"user must be text that is not empty, got 7"),
    ],
    ClusterConfig.topic_spec: [
        (lambda kafka: kafka.config.topic_spec("ordrs"), r"no topic 'ordrs': did you mean orders"),
    ],
}

UNCHECKED: dict[Any, str] = {
    EmbeddedKafkaTestCase.run: "unittest calls it",
    FaultPlan.run: "takes any function",
    Topic.spark_options: "Spark checks its options",
    Topic.sink_options: "Spark checks its options",
    SystemClock.wait_until: "for brokers",
    SystemClock.subscribe: "for brokers",
}


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(brokers=2, topics={"orders": 2}) as cluster:
        yield cluster


def job_quota(kafka: EmbeddedKafka, **limits: Any) -> None:
    """Any: they are of wrong types."""
    kafka.quotas.set(client_id="job", **limits)


def orders(kafka: Any) -> Any:
    return kafka.existing_topic("orders")


def outside(kafka: Any) -> Any:
    """The cluster as any client sees it."""
    return Cluster(ClientReach(kafka.bootstrap_servers))


def busy_port(kafka: Any) -> int:
    return int(kafka.broker(1).address.rpartition(":")[2])


def error(kafka: Any, **where: Any) -> Any:
    return kafka.faults.error("FETCH", "UNKNOWN_SERVER_ERROR", **where)


def fault(kafka: Any) -> Any:
    with error(kafka, broker=2) as removed:
        return removed


def another_snapshot() -> Snapshot:
    with EmbeddedKafka() as other:
        return other.snapshot()


@pytest.mark.parametrize(("arguments", "match"), CONSTRUCTIONS, ids=str)
@pytest.mark.parametrize("cls", [EmbeddedKafka, ClusterConfig])
def test_a_cluster_that_cannot_be(cls: type[Any], arguments: dict[str, Any], match: str) -> None:
    if cls is ClusterConfig and "seed" in arguments:
        return
    with pytest.raises(ConfigError, match=match):
        cls(**arguments)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: ANY_SECURITY(users=[]), r'needs passwords: users={"alice": "a-secret"}'),
        (
            lambda: ANY_SECURITY(users={"a": "b"}, super_users=5),
            r"super_users must be a list such as",
        ),
        (lambda: ANY_SECURITY(users={"a": "b\0"}), r"the password of user a cannot contain NUL"),
        (
            lambda: ANY_ACL.allow(5, "READ", topic="x"),
            r"user must be text that is not empty, got 5",
        ),
        (lambda: ANY_ACL.allow("a", 5, topic="x"), r"operation must be text .* got 5"),
        (lambda: ANY_ACL.allow("a", "READ", topic=5), r"the TOPIC of an ACL must be text .* got 5"),
        (lambda: ANY_ACL.allow("a", "READ", topic="x", host=5), r"host must be text .* got 5"),
    ],
)
def test_security_that_cannot_be(make: Callable[[], object], match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        make()


@pytest.mark.parametrize(("arguments", "match"), SPECS, ids=str)
def test_a_topic_that_cannot_be(arguments: dict[str, Any], match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        TopicSpec(**arguments)


@pytest.mark.parametrize(
    ("call", "match"),
    [case for cases in CALLS.values() for case in cases],
    ids=[
        f"{method.__qualname__} {number}"
        for method, cases in CALLS.items()
        for number, _ in enumerate(cases)
    ],
)
def test_a_call_that_cannot_be(
    kafka: EmbeddedKafka, call: Callable[[Any], object], match: str
) -> None:
    with pytest.raises(EmbedKafkaError, match=match):
        call(kafka)
    assert kafka.faults._requests._faults == ()
    assert not [each for each in threading.enumerate() if each.name.startswith("ek-page")]


def test_every_public_method_with_arguments_is_tried() -> None:
    methods = {
        method
        for name in embedkafka.__all__
        for method in vars(getattr(embedkafka, name)).values()
        if inspect.isfunction(method)
        and not method.__name__.startswith("_")
        and len(inspect.signature(method).parameters) > 1
    }
    assert methods - UNCHECKED.keys() - CALLS.keys() == set()


def test_a_cluster_that_is_not_running() -> None:
    kafka = EmbeddedKafka()
    with pytest.raises(ClusterClosed, match=r"not running: use it inside `with"):
        kafka.topic("orders")
    with kafka:
        topic: Any = kafka.topic("orders")  # Any: it gets arguments of wrong types
        disk, handle, clock = kafka.faults.disk(1), kafka.broker(1), kafka.clock
    uses: list[Callable[[], object]] = [
        lambda: kafka.bootstrap_servers,
        lambda: kafka.cluster_id,
        lambda: kafka.brokers.controller,
        lambda: kafka.faults,
        lambda: kafka.scratch_dir(),
        kafka.snapshot,
        kafka.reset,
        lambda: kafka.brokers,
        lambda: topic.leader(),
        kafka.requests,
        lambda: kafka.topic("orders"),
        lambda: kafka.existing_topic("orders"),
        lambda: topic.send("late"),
        lambda: topic.send_many(["late"]),
        topic.read,
        lambda: topic.write(None),
        lambda: topic.to_df(None),
        handle.start,
    ]
    for use in uses:
        with pytest.raises(ClusterClosed):
            use()
    with pytest.raises(EmbedKafkaError, match=r"broker 1 is not running: it is stopped"):
        _ = handle.address
    with pytest.raises(EmbedKafkaError, match=r"started before: make another EmbeddedKafka"):
        kafka.start()
    disk.heal()
    clock.advance(1)


def test_a_port_that_is_in_use() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=rf"port {port} is in use: choose another `port`"):
            EmbeddedKafka(port=port).start()


@pytest.mark.parametrize("host", ["no such host", "192.0.2.1"])
def test_a_host_that_cannot_be_bound(host: str) -> None:
    with pytest.raises(ConfigError, match=rf"{host!r} is not an address of this machine"):
        EmbeddedKafka(host=host).start()


def test_a_data_dir_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"file cannot be used: "):
        EmbeddedKafka(data_dir=tmp_path / "file").start()


def test_a_data_dir_below_a_file(tmp_path: Path) -> None:
    """Stands for any directory that cannot be created: root may write everywhere else."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=os.strerror(errno.ENOTDIR)):
        EmbeddedKafka(data_dir=tmp_path / "file" / "below").start()


@pytest.mark.parametrize(
    ("decode", "kind"),
    [(Message.json, "JSON"), (lambda message: message.text, "UTF-8 text")],
)
def test_a_record_that_is_something_else(decode: Callable[[Message], object], kind: str) -> None:
    message = Message(
        topic="orders", partition=0, offset=3, timestamp_ms=0, key=None, value=b"\xff{"
    )
    with pytest.raises(UndecodableMessage, match=f"orders-0 offset 3 is not {kind}"):
        decode(message)


def test_these_errors_are_value_errors_too() -> None:
    assert issubclass(InvalidArgument, ValueError)
    assert issubclass(UndecodableMessage, ValueError)


COMMANDS: list[tuple[list[str], str]] = [
    ([], "print the records of a topic as they come"),
    (["serv"], "invalid choice: 'serv'"),
    (["serve", "--brokers", "0"], "brokers must be a whole number from 1 to 1000, got 0"),
    (["serve", "--brokers", "three"], "--brokers: invalid int value: 'three'"),
    (["serve", "--port", "99999"], "port must be a whole number from 0 to 65535, got 99999"),
    (["serve", "--topic", ":3"], "':3' is not NAME[:PARTITIONS[:REPLICATION]]"),
    (["serve", "--topic", "a:many"], "'a:many' is not NAME[:PARTITIONS[:REPLICATION]]"),
    (["serve", "--topic", "a:0"], "partitions must be a whole number from 1 to 2147483647, got 0"),
    (["serve", "--topic", "a b"], "'a b' cannot be a topic's name"),
    (["serve", "--config", "num.partitions"], "'num.partitions' is not KEY=VALUE"),
    (["serve", "--config", "num.partition=3"], "did you mean num.partitions"),
    (["serve", "--properties", "no/such/file"], "cannot read --properties no/such/file"),
    (["serve", "--data-dir", __file__], f"the directory {__file__} cannot be used"),
    (["serve", "--", "true"], "only `up` takes a command"),
    (["up"], "embedkafka up [options] -- command"),
    (["broker", "--id", "1"], "the following arguments are required: --zookeeper"),
    (["broker", "--zookeeper", "z:1", "--id", "-1"], "a broker's id must be .* got -1"),
    (["broker", "--zookeeper", "", "--id", "1"], "zookeeper must be text"),
    (["broker", "--zookeeper", "z:1", "--id", "1", "--port", "-1"], "port must be .* got -1"),
    (["dump-log", "no/such/file"], "no/such/file"),
]


@pytest.mark.parametrize(("arguments", "text"), COMMANDS, ids=lambda given: " ".join(given)[:40])
def test_a_command_that_cannot_be(
    arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code: object
    try:
        code = cli.main(arguments)
    except SystemExit as end:  # argparse exits on a bad argument
        code = end.code
    said = capsys.readouterr()
    assert code == (1 if arguments[:1] == ["dump-log"] else 2)
    assert text in said.err + said.out or re.search(text, said.err)
    assert "Traceback" not in said.err
