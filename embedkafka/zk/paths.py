"""The paths of Kafka's znodes."""

from typing import Final

from embedkafka.runtime.ids import TopicPartition

CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
BROKER_IDS: Final = "/brokers/ids"
KNOWN_BROKERS: Final = "/brokers/known"
BROKER_SEQUENCE_ID: Final = "/brokers/seqid"
TOPICS: Final = "/brokers/topics"
CONFIG: Final = "/config"
CONFIG_CHANGES: Final = "/config/changes"
CONFIG_CHANGE_PREFIX: Final = "config_change_"
DELETE_TOPICS: Final = "/admin/delete_topics"
REASSIGN_PARTITIONS: Final = "/admin/reassign_partitions"
PREFERRED_REPLICA_ELECTION: Final = "/admin/preferred_replica_election"
ISR_CHANGES: Final = "/isr_change_notification"
ISR_CHANGE_PREFIX: Final = "isr_change_"
LOG_DIR_EVENTS: Final = "/log_dir_event_notification"
LOG_DIR_EVENT_PREFIX: Final = "log_dir_event_"
PRODUCER_ID_BLOCK: Final = "/latest_producer_id_block"
CONSUMERS: Final = "/consumers"
CLUSTER_ID: Final = "/cluster/id"
DECOY_SECRET: Final = "/cluster/scram_decoys"  # of our own
FEATURE: Final = "/feature"
DELEGATION_TOKENS: Final = "/delegation_token/tokens"
DELEGATION_TOKEN_CHANGES: Final = "/delegation_token/token_changes"
DELEGATION_TOKEN_CHANGE_PREFIX: Final = "token_change_"

CONFIG_TYPES: Final = ("topics", "clients", "users", "brokers", "ips")
"""Kinds of entities with dynamic settings, each a child of `/config`."""

PERSISTENT: Final = (
    CONSUMERS,
    BROKER_IDS,
    TOPICS,
    CONFIG_CHANGES,
    DELETE_TOPICS,
    BROKER_SEQUENCE_ID,
    ISR_CHANGES,
    PRODUCER_ID_BLOCK,
    LOG_DIR_EVENTS,
    *(f"{CONFIG}/{kind}" for kind in CONFIG_TYPES),
)
"""The znodes that the first broker of a cluster creates."""


def broker(broker_id: int) -> str:
    return f"{BROKER_IDS}/{broker_id}"


def known_broker(broker_id: int) -> str:
    """Where a broker is remembered while it is down; Kafka in ZooKeeper mode has no such znode."""
    return f"{KNOWN_BROKERS}/{broker_id}"


def topic(name: str) -> str:
    return f"{TOPICS}/{name}"


def partitions(topic_name: str) -> str:
    return f"{TOPICS}/{topic_name}/partitions"


def partition(tp: TopicPartition) -> str:
    return f"{TOPICS}/{tp.topic}/partitions/{tp.partition}"


def partition_state(tp: TopicPartition) -> str:
    return f"{TOPICS}/{tp.topic}/partitions/{tp.partition}/state"


def delete_topic(name: str) -> str:
    return f"{DELETE_TOPICS}/{name}"


def delegation_token(token_id: str) -> str:
    return f"{DELEGATION_TOKENS}/{token_id}"


def consumer_offset(group: str, tp: TopicPartition) -> str:
    """The offsets of groups before Kafka 0.8.2."""
    return f"{CONSUMERS}/{group}/offsets/{tp.topic}/{tp.partition}"


def config(entity_type: str, entity_name: str) -> str:
    """`entity_name` is sanitized; a user's client is `<user>/clients/<client>`."""
    return f"{CONFIG}/{entity_type}/{entity_name}"
