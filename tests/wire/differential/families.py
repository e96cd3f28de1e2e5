"""The families of sequences, and the clusters that each needs."""

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from embedkafka import EmbeddedKafka
from embedkafka.wire.protocol.api_keys import ApiKey
from tests.java_tools.oracle import VERSIONS, ApacheKafka
from tests.wire.clients import Cluster, await_coordinators, create_topic, eventually
from tests.wire.differential.classic_groups import ClassicGroups
from tests.wire.differential.consumer_groups import TOPICS, ConsumerGroups
from tests.wire.differential.records import Records
from tests.wire.differential.runs import NewFamily
from tests.wire.differential.topics import Topics
from tests.wire.differential.transactions import Transactions
from tests.wire.plain_messages import request

#: Like those of the other wire tests, without timeouts that could end in the middle of a sequence.
_CONFIG: Final[Mapping[str, object]] = {
    "auto.create.topics.enable": False,
    "group.initial.rebalance.delay.ms": 0,
    "group.max.size": 4,
    "group.consumer.max.size": 4,
    "group.consumer.heartbeat.interval.ms": 5000,
    "group.consumer.session.timeout.ms": 45_000,
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.num.partitions": 3,
}
#: So many groups reach every partition of a small `__consumer_offsets`.
_WARM_UPS: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    new: NewFamily
    brokers: int = 1
    version: str = VERSIONS[0]
    """The release of Apache Kafka."""
    topics: Mapping[str, int] = field(default_factory=dict)
    """Topics and their partitions that every sequence finds; coordinators of groups know them."""


FAMILIES: Final[Mapping[str, Spec]] = {
    "records": Spec(new=Records),
    "classic-groups": Spec(new=ClassicGroups),
    # From 4.3 on, Kafka counts epochs differently (`docs/differences.md`).
    "consumer-groups": Spec(new=ConsumerGroups, version="4.2.1", topics=TOPICS),
    "transactions": Spec(new=Transactions),
    "topics": Spec(new=Topics, brokers=3),
}


@contextmanager
def started(spec: Spec) -> Iterator[tuple[Cluster, Cluster]]:
    """Our cluster and Apache Kafka, ready for a family."""
    config = dict(_CONFIG)
    with (
        EmbeddedKafka(brokers=spec.brokers, config=config) as ours,
        ApacheKafka(brokers=spec.brokers, config=config, version=spec.version) as theirs,
    ):
        clusters = (
            Cluster(kind="embedded", bootstrap_servers=ours.bootstrap_servers),
            Cluster(kind="apache", bootstrap_servers=theirs.bootstrap_servers),
        )
        for cluster in clusters:
            for index in range(spec.brokers):
                with cluster.connect(index) as raw:
                    eventually(raw.gives_producer_ids, f"broker {index} gives producer ids")
            await_coordinators(cluster)
            for topic, partitions in spec.topics.items():
                create_topic(cluster, topic, partitions=partitions)
            if spec.topics:
                for number in range(_WARM_UPS):
                    assigns = partial(_assigns, cluster, f"warm-up-{number}", list(spec.topics))
                    eventually(assigns, f"the coordinator of warm-up-{number} knows the topics")
        yield clusters


def _assigns(cluster: Cluster, group: str, topics: list[str]) -> bool:
    """Whether the coordinator of a group gives a new member all these topics."""
    with cluster.connect() as raw:
        asked = {
            "group_id": group,
            "member_id": f"member-{secrets.token_hex(8)}",
            "subscribed_topic_names": topics,
            "rebalance_timeout_ms": 10_000,
            "topic_partitions": [],
        }
        api = ApiKey.CONSUMER_GROUP_HEARTBEAT
        joined = raw.call(request(api, **asked, member_epoch=0))
        raw.call(request(api, **asked, member_epoch=-1))
    return len(joined.assignment.topic_partitions) == len(topics)
