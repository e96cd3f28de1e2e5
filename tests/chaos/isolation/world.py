"""The cluster of a round: what was there before the blocks, and what a block has left open."""

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from embedkafka import Acl, EmbeddedKafka, Security
from embedkafka.broker.broker import Broker
from embedkafka.cluster.restoring.coordinated import find_coordinated
from embedkafka.security.principals import KafkaPrincipal
from embedkafka.wire.net.client import BrokerClient
from tests.cluster.members import PATIENCE_S, await_true

OWN = {"own": 2}
KEPT_GROUP, KEPT_TXN, KEPT_USER = "kept-group", "kept-txn", "kept-user"
CLIENT_S = 2.0
"""How long a client of a block may try: the block may have broken what it needs."""
_AUTHORIZED = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "delegation.token.secret.key": "secret",
}


class Shape:
    """The cluster that a seed stands for."""

    def __init__(self, rng: Random) -> None:
        self.brokers = rng.choice([1, 3, 3])
        self.security = rng.choice(["none", "none", "acls", "scram", "several"])
        self.log_dirs = rng.choice([1, 1, 2])
        self.config: dict[str, object] = {
            "offsets.topic.num.partitions": 3,
            "transaction.state.log.num.partitions": 3,
            "auto.create.topics.enable": True,
            "num.io.threads": rng.choice([0, 0, 2]),
        }

    def __str__(self) -> str:
        return (
            f"{self.brokers} brokers, security {self.security}, {self.log_dirs} log dirs, "
            f"{self.config['num.io.threads']} io threads"
        )

    def start(self) -> EmbeddedKafka:
        settings: dict[str, Any] = {"brokers": self.brokers, "topics": OWN}
        config = dict(self.config)
        if self.security == "acls":
            config |= _AUTHORIZED
        elif self.security in ("scram", "several"):
            config["delegation.token.secret.key"] = "secret"
            settings["security"] = Security(
                protocol="SASL_PLAINTEXT",
                mechanism=["PLAIN", "SCRAM-SHA-512"] if self.security == "several" else None,
                anonymous=self.security == "several",
                users={"ann": "a-secret"},
                acls=[Acl.allow("ann", "ALL", topic="*")],
            )
        return EmbeddedKafka(config=config, log_dirs=self.log_dirs, **settings).start()


class World:
    """A cluster, what its blocks must leave alone, and what they did to it on purpose."""

    def __init__(self, shape: Shape, rng: Random) -> None:
        self.shape = shape
        self.kafka = shape.start()
        self._names = itertools.count()
        self._open: list[Callable[[], object]] = []
        self._alive: list[object] = []
        self.kept: list[str] = []
        """Topics that were there before."""
        self.made: list[str] = []
        """Topics of the block."""
        self.gone: set[str] = set()
        """Topics and groups that were there before and that blocks have deleted."""
        self.acknowledged: dict[str, Counter[str]] = defaultdict(Counter)
        """Values in topics that stay, by topic."""
        self._prepare(rng)

    @property
    def broker_ids(self) -> list[int]:
        return [handle.id for handle in self.kafka.brokers]

    def new_name(self, kind: str) -> str:
        return f"{kind}-{next(self._names)}"

    def leave_open(self, end: Callable[[], object]) -> None:
        """Ends something only after the block."""
        self._open.append(end)

    def kill_later(self, client: object) -> None:
        """Lets a stock client go when the block ends: alive, it would come back by itself."""
        self._alive.append(client)

    def kill_clients(self) -> None:
        self._alive.clear()

    def end_clients(self) -> None:
        self.kill_clients()
        left, self._open = self._open, []
        for end in left:
            with suppress(Exception):  # what it talks to is gone
                end()

    # -- clients

    def settings(self, **settings: object) -> dict[str, Any]:
        named = {name.replace("_", "."): value for name, value in settings.items()}
        return {**self.kafka.client_config(), "log_level": 0, **named}

    def admin(self) -> AdminClient:
        admin = AdminClient(self.settings())
        self.kill_later(admin)
        return admin

    def producer(self, **settings: object) -> Producer:
        producer = Producer(self.settings(message_timeout_ms=int(CLIENT_S * 1000), **settings))
        self.kill_later(producer)
        return producer

    def consumer(self, group: str, **settings: object) -> Consumer:
        given = {"enable_auto_commit": False, "auto_offset_reset": "earliest", **settings}
        consumer = Consumer(self.settings(group_id=group, **given))
        self.kill_later(consumer)
        return consumer

    def brokers(self) -> list[Broker]:
        """Those that run."""
        return [handle.require_broker() for handle in self.kafka._require_brokers().running()]

    def wire(self, broker_id: int | None = None) -> BrokerClient:
        """A client of a broker, by default of the controller, that sends what it is asked to."""
        wanted = self.kafka.brokers.controller if broker_id is None else broker_id
        assert wanted is not None, "no controller"
        client = self.kafka._require_brokers().require(wanted).require_broker().make_client("chaos")
        self.leave_open(client.close)
        return client

    def send(self, topic: str, value: str) -> None:
        """Sends a record; it stays for good if it was acknowledged."""
        failed: list[object] = []
        producer = self.producer()
        producer.produce(topic, value, on_delivery=lambda error, _: failed.append(error))
        producer.flush(CLIENT_S + 1)
        assert failed == [None], f"not acknowledged: {failed}"
        self.acknowledged[topic][value] += 1

    # -- what was there before

    def _prepare(self, rng: Random) -> None:
        kafka = self.kafka
        for number in range(rng.randint(1, 3)):
            name = f"kept-{number}"
            replication = rng.randint(1, self.shape.brokers)
            config = {"retention.ms": 10**9} if rng.random() < 0.5 else {}
            kafka.topic(name, partitions=rng.randint(1, 3), replication=replication, config=config)
            self.kept.append(name)
            self.send(name, "before")
        if rng.random() < 0.5:
            consumer = self.consumer(KEPT_GROUP)
            consumer.commit(offsets=[TopicPartition("kept-0", 0, 1)], asynchronous=False)
            consumer.close()
        if rng.random() < 0.3:
            producer = Producer(self.settings(transactional_id=KEPT_TXN))
            producer.init_transactions(20)
            producer.begin_transaction()
            producer.produce("kept-0", "committed")
            producer.commit_transaction(20)
            self.acknowledged["kept-0"]["committed"] += 1
            found = lambda: find_coordinated(kafka._require_brokers()).transactions  # noqa: E731
            await_true(lambda: found() == {KEPT_TXN: "CompleteCommit"}, PATIENCE_S)
        if self.shape.security != "none":
            kafka.acls.add(Acl.allow(KEPT_USER, "READ", topic="elsewhere"))
            tokens = self.brokers()[0].tokens
            assert tokens is not None
            owner = KafkaPrincipal("User", KEPT_USER)
            tokens.create(owner, owner, (), -1)
        if rng.random() < 0.3:
            kafka.scratch_dir("kept")
        if rng.random() < 0.3:
            kafka.snapshot("kept")
        if rng.random() < 0.2:
            kafka.faults.delay("DESCRIBE_ACLS", 1, times=None)
