"""A first cluster loads only what it needs, and no slow module it can do without."""

import subprocess
import sys

import pytest

from tests.tidy.sources import MODULES, references

LATER = {
    "dataclasses": "use embedkafka.runtime.values: it compiles nothing before it is needed",
    "inspect": "comes with dataclasses",
    "asyncio": "",
    "subprocess": "",
    "ssl": "",
    "importlib.metadata": "crc32c looks up its version; see wire.records.checksum",
    "confluent_kafka": "for topic handles, on first use",
    "kazoo": "for a real ZooKeeper",
    "pyspark": "",
    "embedkafka.cluster.reports.report": "for tests that failed",
    "embedkafka.wire.protocol.messages.configs": "only for requests that need it",
    "embedkafka.wire.protocol.messages.security": "only for requests that need it",
    "embedkafka.cluster.access.security": "for secured clusters",
    "embedkafka.security.acl.authorizer": "for brokers with an authorizer",
    "embedkafka.broker.authorization.needs": "as above",
    "embedkafka.broker.throttling": "for brokers with quotas",
    "embedkafka.wire.protocol.refusals": "for requests that are refused",
    "embedkafka.security.sasl_authenticator": "for listeners that ask clients to log in",
    "embedkafka.security.tls": "for listeners that speak TLS",
    "encodings.idna": "a host's name as bytes needs no tables",
    "embedkafka.cluster.clients.clients": "for topic handles, on first use",
    "embedkafka.cluster.restoring.snapshot": "for tests that take snapshots",
    "embedkafka.broker.log.files.copies": "likewise",
    "embedkafka.broker.log.cleaning.compaction": "for topics that are compacted",
    "embedkafka.wire.protocol.messages.core": "only for requests of clients",
    "embedkafka.wire.records.conversion": "for old clients",
    "embedkafka.broker.replica.following.remote_leader": "for brokers in other processes",
    "embedkafka.spark.producers": "for tests that use Spark",
    "embedkafka.zk.kazoo_store": "for a real ZooKeeper",
    "embedkafka.broker.coordinator.runtime": "for groups and transactions",
    "embedkafka.broker.coordinator.groups.service": "when first needed: LazyCoordinator",
    "embedkafka.broker.coordinator.transactions.service": "likewise",
    "embedkafka.wire.protocol.messages.groups": "only for requests that need it",
    "embedkafka.broker.apis.groups": "handlers are loaded when they are called",
}


#: How many modules of ours are loaded, at most. Each costs a tenth of a millisecond, and more with
#: its classes. Raise a number only for what every cluster needs: import the rest on first use.
BUDGETS = {"the first start": 241, "the first record written and read": 296}

PROGRAM = """
import sys
from embedkafka import EmbeddedKafka

def loaded():
    print(*sys.modules)

with EmbeddedKafka(brokers=3) as kafka:
    loaded()
    topic = kafka.topic("orders")
    topic.send("hello")
    assert len(topic.read(1)) == 1
loaded()
"""


@pytest.fixture(scope="module")
def loaded() -> dict[str, list[str]]:
    """The modules that a process has loaded after each step of the budget."""
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True
    )
    return dict(zip(BUDGETS, map(str.split, ran.stdout.splitlines()), strict=True))


def test_a_first_cluster_loads_nothing_that_may_come_later(loaded: dict[str, list[str]]) -> None:
    early = set(loaded["the first start"]) & LATER.keys()
    assert {name: LATER[name] for name in early} == {}


@pytest.mark.parametrize("step", BUDGETS)
def test_no_more_modules_are_loaded_than_the_budget_allows(
    step: str, loaded: dict[str, list[str]]
) -> None:
    ours = [name for name in loaded[step] if name.partition(".")[0] == "embedkafka"]
    assert len(ours) <= BUDGETS[step], f"{len(ours)} modules: {' '.join(sorted(ours))}"


def test_named_tuples_are_the_quick_ones() -> None:
    slow = [
        module.name
        for module in MODULES
        if module.name != "runtime/values.py"
        if any(reference.name == "typing.NamedTuple" for reference in references(module.tree))
    ]
    assert slow == [], "use embedkafka.runtime.values: 80 of them took 15 ms of a first cluster"
