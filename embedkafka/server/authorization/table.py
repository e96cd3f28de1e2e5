"""What a client must be allowed to do for each API: the guards, and the words of the docs.

`docs/reference/authorization.md` is made from this table. Tests compare it with Apache Kafka, and
check that a guard asks for nothing that its row does not list.
"""

from collections.abc import Mapping
from typing import Final

from embedkafka.protocol.api_keys import ApiKey
from embedkafka.runtime.values import NamedTuple
from embedkafka.security.acl.operations import AclOperation as Op
from embedkafka.security.acl.operations import ResourceType

_TOPIC, _GROUP, _CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
_TXN, _TOKEN, _USER = (
    ResourceType.TRANSACTIONAL_ID,
    ResourceType.DELEGATION_TOKEN,
    ResourceType.USER,
)


class Need(NamedTuple):
    """One permission, and when it is needed."""

    operation: Op
    resource: ResourceType
    remark: str = ""


class Rule(NamedTuple):
    """The guard as `module.function`, empty if the handler asks; and all that it asks for."""

    guard: str
    needs: tuple[Need, ...]


def _rule(guard: str, *needs: tuple[Op, ResourceType] | tuple[Op, ResourceType, str]) -> Rule:
    return Rule(guard, tuple(Need(*need) for need in needs))


def _for_brokers(guard: str) -> Rule:
    return _rule(guard, (Op.CLUSTER_ACTION, _CLUSTER, "on the control plane, for brokers only"))


FREE: Final = frozenset(
    {
        ApiKey.API_VERSIONS,
        ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
        ApiKey.PUSH_TELEMETRY,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.SASL_HANDSHAKE,
    }
)
"""Anyone may send these."""

_EITHER = "or the other one"
_ELSE_LEFT_OUT = "what is not allowed is left out"

RULES: Final[Mapping[ApiKey, Rule]] = {
    ApiKey.PRODUCE: _rule(
        "record_guards.produce",
        (Op.WRITE, _TOPIC),
        (Op.WRITE, _TXN, "for transactional batches"),
    ),
    ApiKey.FETCH: _rule(
        "record_guards.fetch",
        (Op.READ, _TOPIC, "for consumers"),
        (Op.CLUSTER_ACTION, _CLUSTER, "for followers"),
    ),
    ApiKey.LIST_OFFSETS: _rule("record_guards.list_offsets", (Op.DESCRIBE, _TOPIC)),
    ApiKey.METADATA: _rule(
        "topic_guards.metadata",
        (Op.DESCRIBE, _TOPIC, "a list of all topics has the visible ones"),
        (Op.CREATE, _CLUSTER, "or CREATE of the topic, to create a missing one"),
        (Op.CREATE, _TOPIC, "as above"),
        (Op.DESCRIBE, _CLUSTER, "for the authorized operations of the cluster"),
    ),
    ApiKey.LEADER_AND_ISR: _for_brokers("control_guards.leader_and_isr"),
    ApiKey.STOP_REPLICA: _for_brokers("control_guards.stop_replica"),
    ApiKey.UPDATE_METADATA: _for_brokers("control_guards.update_metadata"),
    ApiKey.CONTROLLED_SHUTDOWN: _for_brokers("control_guards.controlled_shutdown"),
    ApiKey.OFFSET_COMMIT: _rule("group_guards.offset_commit", (Op.READ, _GROUP), (Op.READ, _TOPIC)),
    ApiKey.OFFSET_FETCH: _rule(
        "group_guards.offset_fetch",
        (Op.DESCRIBE, _GROUP),
        (Op.DESCRIBE, _TOPIC, "a request for all topics gets the visible ones"),
    ),
    ApiKey.FIND_COORDINATOR: _rule(
        "group_guards.find_coordinator",
        (Op.DESCRIBE, _GROUP, "for groups"),
        (Op.DESCRIBE, _TXN, "for transactions"),
        (Op.CLUSTER_ACTION, _CLUSTER, "for the state of share groups, which brokers ask for"),
    ),
    ApiKey.JOIN_GROUP: _rule("group_guards.join_group", (Op.READ, _GROUP)),
    ApiKey.HEARTBEAT: _rule("group_guards.heartbeat", (Op.READ, _GROUP)),
    ApiKey.LEAVE_GROUP: _rule("group_guards.leave_group", (Op.READ, _GROUP)),
    ApiKey.SYNC_GROUP: _rule("group_guards.sync_group", (Op.READ, _GROUP)),
    ApiKey.DESCRIBE_GROUPS: _rule("group_guards.describe_groups", (Op.DESCRIBE, _GROUP)),
    ApiKey.LIST_GROUPS: _rule(
        "group_guards.list_groups",
        (Op.DESCRIBE, _CLUSTER, "for all groups"),
        (Op.DESCRIBE, _GROUP, _ELSE_LEFT_OUT),
    ),
    ApiKey.DELETE_GROUPS: _rule("group_guards.delete_groups", (Op.DELETE, _GROUP)),
    ApiKey.OFFSET_DELETE: _rule(
        "group_guards.offset_delete", (Op.DELETE, _GROUP), (Op.READ, _TOPIC)
    ),
    ApiKey.CREATE_TOPICS: _rule(
        "topic_guards.create_topics",
        (Op.CREATE, _CLUSTER, _EITHER),
        (Op.CREATE, _TOPIC, _EITHER),
        (Op.DESCRIBE_CONFIGS, _TOPIC, "to see the settings in the answer"),
    ),
    ApiKey.DELETE_TOPICS: _rule(
        "topic_guards.delete_topics",
        (Op.DELETE, _CLUSTER, _EITHER),
        (Op.DELETE, _TOPIC, _EITHER),
        (Op.DESCRIBE, _TOPIC, "to learn that a topic does not exist, or its name"),
    ),
    ApiKey.CREATE_PARTITIONS: _rule("topic_guards.create_partitions", (Op.ALTER, _TOPIC)),
    ApiKey.DELETE_RECORDS: _rule("record_guards.delete_records", (Op.DELETE, _TOPIC)),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _rule(
        "record_guards.offset_for_leader_epoch",
        (Op.CLUSTER_ACTION, _CLUSTER, _EITHER),
        (Op.DESCRIBE, _TOPIC, _EITHER),
    ),
    ApiKey.INIT_PRODUCER_ID: _rule(
        "transaction_guards.init_producer_id",
        (Op.WRITE, _TXN, "with a transactional id"),
        (Op.WRITE, _TOPIC, "of any name, without a transactional id"),
        (Op.IDEMPOTENT_WRITE, _CLUSTER, "does as well"),
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: _rule(
        "transaction_guards.add_partitions_to_txn",
        (Op.WRITE, _TXN),
        (Op.WRITE, _TOPIC),
        (Op.CLUSTER_ACTION, _CLUSTER, "from v4 on, which brokers send"),
    ),
    ApiKey.ADD_OFFSETS_TO_TXN: _rule(
        "transaction_guards.add_offsets_to_txn", (Op.WRITE, _TXN), (Op.READ, _GROUP)
    ),
    ApiKey.END_TXN: _rule("transaction_guards.end_txn", (Op.WRITE, _TXN)),
    ApiKey.WRITE_TXN_MARKERS: _rule(
        "transaction_guards.write_txn_markers",
        (Op.ALTER, _CLUSTER, _EITHER),
        (Op.CLUSTER_ACTION, _CLUSTER, _EITHER),
    ),
    ApiKey.TXN_OFFSET_COMMIT: _rule(
        "transaction_guards.txn_offset_commit",
        (Op.WRITE, _TXN),
        (Op.READ, _GROUP),
        (Op.READ, _TOPIC),
    ),
    ApiKey.DESCRIBE_CONFIGS: _rule(
        "cluster_guards.describe_configs",
        (Op.DESCRIBE_CONFIGS, _TOPIC, "for topics"),
        (Op.DESCRIBE_CONFIGS, _GROUP, "for groups"),
        (Op.DESCRIBE_CONFIGS, _CLUSTER, "for brokers"),
    ),
    ApiKey.ALTER_CONFIGS: _rule(
        "cluster_guards.alter_configs",
        (Op.ALTER_CONFIGS, _TOPIC, "for topics"),
        (Op.ALTER_CONFIGS, _GROUP, "for groups"),
        (Op.ALTER_CONFIGS, _CLUSTER, "for brokers"),
    ),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _rule(
        "cluster_guards.incremental_alter_configs",
        (Op.ALTER_CONFIGS, _TOPIC, "for topics"),
        (Op.ALTER_CONFIGS, _GROUP, "for groups"),
        (Op.ALTER_CONFIGS, _CLUSTER, "for brokers"),
    ),
    ApiKey.LIST_CONFIG_RESOURCES: _rule(
        "cluster_guards.list_config_resources", (Op.DESCRIBE_CONFIGS, _CLUSTER)
    ),
    ApiKey.ELECT_LEADERS: _rule("cluster_guards.elect_leaders", (Op.ALTER, _CLUSTER)),
    ApiKey.ALTER_REPLICA_LOG_DIRS: _rule(
        "cluster_guards.alter_replica_log_dirs", (Op.ALTER, _CLUSTER)
    ),
    ApiKey.DESCRIBE_LOG_DIRS: _rule("cluster_guards.describe_log_dirs", (Op.DESCRIBE, _CLUSTER)),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _rule(
        "cluster_guards.alter_partition_reassignments", (Op.ALTER, _CLUSTER)
    ),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _rule(
        "cluster_guards.list_partition_reassignments", (Op.DESCRIBE, _CLUSTER)
    ),
    ApiKey.DESCRIBE_PRODUCERS: _rule("record_guards.describe_producers", (Op.READ, _TOPIC)),
    ApiKey.DESCRIBE_TRANSACTIONS: _rule(
        "transaction_guards.describe_transactions",
        (Op.DESCRIBE, _TXN),
        (Op.DESCRIBE, _TOPIC, _ELSE_LEFT_OUT),
    ),
    ApiKey.LIST_TRANSACTIONS: _rule(
        "transaction_guards.list_transactions", (Op.DESCRIBE, _TXN, _ELSE_LEFT_OUT)
    ),
    ApiKey.UPDATE_FEATURES: _rule("cluster_guards.update_features", (Op.ALTER, _CLUSTER)),
    ApiKey.DESCRIBE_QUORUM: _rule("cluster_guards.describe_quorum", (Op.DESCRIBE, _CLUSTER)),
    ApiKey.UNREGISTER_BROKER: _rule("cluster_guards.unregister_broker", (Op.ALTER, _CLUSTER)),
    ApiKey.ADD_RAFT_VOTER: _rule("cluster_guards.add_raft_voter", (Op.ALTER, _CLUSTER)),
    ApiKey.REMOVE_RAFT_VOTER: _rule("cluster_guards.remove_raft_voter", (Op.ALTER, _CLUSTER)),
    ApiKey.UPDATE_RAFT_VOTER: _for_brokers("control_guards.update_raft_voter"),
    ApiKey.DESCRIBE_CLUSTER: _rule(
        "topic_guards.describe_cluster",
        (Op.DESCRIBE, _CLUSTER, "for the authorized operations of the cluster"),
    ),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: _rule(
        "topic_guards.describe_topic_partitions",
        (Op.DESCRIBE, _TOPIC, "a list of all topics has the visible ones"),
    ),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _rule(
        "group_guards.consumer_group_heartbeat",
        (Op.READ, _GROUP),
        (Op.DESCRIBE, _TOPIC, "for topics by name; an expression finds the visible ones only"),
    ),
    ApiKey.CONSUMER_GROUP_DESCRIBE: _rule(
        "group_guards.consumer_group_describe",
        (Op.DESCRIBE, _GROUP),
        (Op.DESCRIBE, _TOPIC, "for topics that its members use"),
    ),
    ApiKey.DESCRIBE_ACLS: _rule("cluster_guards.describe_acls", (Op.DESCRIBE, _CLUSTER)),
    ApiKey.CREATE_ACLS: _rule("cluster_guards.create_acls", (Op.ALTER, _CLUSTER)),
    ApiKey.DELETE_ACLS: _rule("cluster_guards.delete_acls", (Op.ALTER, _CLUSTER)),
    ApiKey.CREATE_DELEGATION_TOKEN: _rule(
        "", (Op.CREATE_TOKENS, _USER, "for a token of another user")
    ),
    ApiKey.RENEW_DELEGATION_TOKEN: _rule(""),
    ApiKey.EXPIRE_DELEGATION_TOKEN: _rule(""),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: _rule(
        "",
        (Op.DESCRIBE, _TOKEN, "for tokens of other users; " + _ELSE_LEFT_OUT),
        (Op.DESCRIBE_TOKENS, _USER, "does as well"),
    ),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: _rule(
        "cluster_guards.describe_client_quotas", (Op.DESCRIBE_CONFIGS, _CLUSTER)
    ),
    ApiKey.ALTER_CLIENT_QUOTAS: _rule(
        "cluster_guards.alter_client_quotas", (Op.ALTER_CONFIGS, _CLUSTER)
    ),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _rule(
        "cluster_guards.describe_user_scram_credentials", (Op.DESCRIBE, _CLUSTER)
    ),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _rule(
        "cluster_guards.alter_user_scram_credentials", (Op.ALTER, _CLUSTER)
    ),
}
"""Every API that is not free, on any listener."""
