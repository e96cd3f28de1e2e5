"""What a client must be allowed to do for each API, for the broker and for the docs.

`docs/reference/authorization.md` is made from this table. Tests compare it with Apache Kafka, and
check that nothing is asked for that a row does not list.
"""

from collections.abc import Mapping
from typing import Any, Final

from embedkafka.protocol.api_keys import ApiKey
from embedkafka.security.acl.operations import AclOperation as Op
from embedkafka.security.acl.operations import ResourceType
from embedkafka.server.authorization import exceptions
from embedkafka.server.authorization.needs import Need, Rule, meaning, reason

_TOPIC, _GROUP, _CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
_TXN, _TOKEN, _USER = (
    ResourceType.TRANSACTIONAL_ID,
    ResourceType.DELEGATION_TOKEN,
    ResourceType.USER,
)


def _rule(*needs: Need, **more: Any) -> Rule:  # Any: fields of `Rule`
    return Rule(needs, **more)


def _asked(operation: Op, resource: ResourceType, remark: str = "") -> Need:
    """For what depends on more than the request; its handler asks."""
    return Need(operation, resource, remark, asked_by_handler=True)


def _administration(operation: Op) -> Rule:
    return _rule(Need(operation, _CLUSTER, says=reason))


def _forwardable(operation: Op) -> Rule:
    return _rule(Need(operation, _CLUSTER, says=reason, when=exceptions.is_not_forwarded))


_FOR_BROKERS: Final = _rule(
    Need(Op.CLUSTER_ACTION, _CLUSTER, "on the control plane, for brokers only")
)


def _configs(operation: Op) -> Rule:
    of_cluster = Need(operation, _CLUSTER, "for brokers", over="resources")
    return _rule(
        Need(operation, _TOPIC, "for topics", says=meaning),
        Need(operation, _GROUP, "for groups", says=meaning),
        of_cluster._replace(when=exceptions.is_of_cluster, says=meaning),
        of_cluster._replace(when=exceptions.is_of_logger, says=exceptions.meaning_to_describe),
    )


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
        Need(Op.WRITE, _TXN, "for transactional batches", when=exceptions.has_transactions),
        Need(Op.WRITE, _TOPIC),
    ),
    ApiKey.FETCH: _rule(
        _asked(Op.READ, _TOPIC, "for consumers"),
        _asked(Op.CLUSTER_ACTION, _CLUSTER, "for followers"),
    ),
    ApiKey.LIST_OFFSETS: _rule(Need(Op.DESCRIBE, _TOPIC)),
    ApiKey.METADATA: _rule(
        _asked(Op.DESCRIBE, _TOPIC, "a list of all topics has the visible ones"),
        _asked(Op.CREATE, _CLUSTER, "or CREATE of the topic, to create a missing one"),
        _asked(Op.CREATE, _TOPIC, "as above"),
        _asked(Op.DESCRIBE, _CLUSTER, "for the authorized operations of the cluster"),
    ),
    ApiKey.LEADER_AND_ISR: _FOR_BROKERS,
    ApiKey.STOP_REPLICA: _FOR_BROKERS,
    ApiKey.UPDATE_METADATA: _FOR_BROKERS,
    ApiKey.CONTROLLED_SHUTDOWN: _FOR_BROKERS,
    ApiKey.OFFSET_COMMIT: _rule(Need(Op.READ, _GROUP), Need(Op.READ, _TOPIC), merges=True),
    ApiKey.OFFSET_FETCH: _rule(
        Need(Op.DESCRIBE, _GROUP),
        _asked(Op.DESCRIBE, _TOPIC, "a request for all topics gets the visible ones"),
        then=exceptions.offset_fetch,
    ),
    ApiKey.FIND_COORDINATOR: _rule(
        Need(Op.DESCRIBE, _GROUP, "for groups", says=exceptions.meaning_before_v4),
        Need(Op.DESCRIBE, _TXN, "for transactions", says=exceptions.meaning_before_v4),
        Need(
            Op.CLUSTER_ACTION,
            _CLUSTER,
            "for the state of share groups, which brokers ask for",
            when=exceptions.is_share_key,
            says=meaning,
        ),
    ),
    ApiKey.JOIN_GROUP: _rule(Need(Op.READ, _GROUP)),
    ApiKey.HEARTBEAT: _rule(Need(Op.READ, _GROUP)),
    ApiKey.LEAVE_GROUP: _rule(Need(Op.READ, _GROUP)),
    ApiKey.SYNC_GROUP: _rule(Need(Op.READ, _GROUP)),
    ApiKey.DESCRIBE_GROUPS: _rule(Need(Op.DESCRIBE, _GROUP), refused_first=True),
    ApiKey.LIST_GROUPS: _rule(
        _asked(Op.DESCRIBE, _CLUSTER, "for all groups"),
        _asked(Op.DESCRIBE, _GROUP, _ELSE_LEFT_OUT),
    ),
    ApiKey.DELETE_GROUPS: _rule(Need(Op.DELETE, _GROUP), merges=True),
    ApiKey.OFFSET_DELETE: _rule(Need(Op.DELETE, _GROUP), Need(Op.READ, _TOPIC)),
    ApiKey.CREATE_TOPICS: _rule(
        Need(
            Op.CREATE,
            _TOPIC,
            _EITHER,
            on_cluster=Op.CREATE,
            when=exceptions.is_no_metadata_log,
            says=lambda check, need: "Authorization failed.",
        ),
        _asked(Op.DESCRIBE_CONFIGS, _TOPIC, "to see the settings in the answer"),
        merges=True,
    ),
    ApiKey.DELETE_TOPICS: _rule(
        Need(Op.DELETE, _TOPIC, _EITHER, on_cluster=Op.DELETE),
        _asked(Op.DESCRIBE, _TOPIC, "to learn that a topic does not exist, or its name"),
        refuse=exceptions.not_deleted,
    ),
    ApiKey.CREATE_PARTITIONS: _rule(Need(Op.ALTER, _TOPIC), merges=True),
    ApiKey.DELETE_RECORDS: _rule(Need(Op.DELETE, _TOPIC), merges=True),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _rule(
        Need(Op.DESCRIBE, _TOPIC, _EITHER, on_cluster=Op.CLUSTER_ACTION)
    ),
    ApiKey.INIT_PRODUCER_ID: _rule(
        Need(Op.WRITE, _TXN, "with a transactional id"),
        _asked(Op.WRITE, _TOPIC, "of any name, without a transactional id"),
        _asked(Op.IDEMPOTENT_WRITE, _CLUSTER, "does as well"),
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: _rule(
        Need(
            Op.CLUSTER_ACTION,
            _CLUSTER,
            "from v4 on, which brokers send",
            when=exceptions.is_from_broker,
        ),
        Need(Op.WRITE, _TXN, when=exceptions.is_from_producer),
        _asked(Op.WRITE, _TOPIC),
    ),
    ApiKey.ADD_OFFSETS_TO_TXN: _rule(Need(Op.WRITE, _TXN), Need(Op.READ, _GROUP)),
    ApiKey.END_TXN: _rule(Need(Op.WRITE, _TXN)),
    ApiKey.WRITE_TXN_MARKERS: _rule(
        Need(Op.CLUSTER_ACTION, _CLUSTER, _EITHER, on_cluster=Op.ALTER)
    ),
    ApiKey.TXN_OFFSET_COMMIT: _rule(
        Need(Op.WRITE, _TXN), Need(Op.READ, _GROUP), Need(Op.READ, _TOPIC)
    ),
    ApiKey.DESCRIBE_CONFIGS: _configs(Op.DESCRIBE_CONFIGS),
    ApiKey.ALTER_CONFIGS: _configs(Op.ALTER_CONFIGS),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _configs(Op.ALTER_CONFIGS),
    ApiKey.LIST_CONFIG_RESOURCES: _administration(Op.DESCRIBE_CONFIGS),
    ApiKey.ELECT_LEADERS: _forwardable(Op.ALTER),
    ApiKey.ALTER_REPLICA_LOG_DIRS: _administration(Op.ALTER),
    ApiKey.DESCRIBE_LOG_DIRS: _administration(Op.DESCRIBE),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _forwardable(Op.ALTER),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _forwardable(Op.DESCRIBE),
    ApiKey.DESCRIBE_PRODUCERS: _rule(Need(Op.READ, _TOPIC, says=meaning)),
    ApiKey.DESCRIBE_TRANSACTIONS: _rule(
        Need(Op.DESCRIBE, _TXN), _asked(Op.DESCRIBE, _TOPIC, _ELSE_LEFT_OUT)
    ),
    ApiKey.LIST_TRANSACTIONS: _rule(_asked(Op.DESCRIBE, _TXN, _ELSE_LEFT_OUT)),
    ApiKey.UPDATE_FEATURES: _administration(Op.ALTER),
    ApiKey.DESCRIBE_QUORUM: _rule(Need(Op.DESCRIBE, _CLUSTER, says=meaning)),
    ApiKey.UNREGISTER_BROKER: _administration(Op.ALTER),
    ApiKey.ADD_RAFT_VOTER: _rule(Need(Op.ALTER, _CLUSTER, says=meaning)),
    ApiKey.REMOVE_RAFT_VOTER: _rule(Need(Op.ALTER, _CLUSTER, says=meaning)),
    ApiKey.UPDATE_RAFT_VOTER: _FOR_BROKERS,
    ApiKey.DESCRIBE_CLUSTER: _rule(
        _asked(Op.DESCRIBE, _CLUSTER, "for the authorized operations of the cluster")
    ),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: _rule(
        _asked(Op.DESCRIBE, _TOPIC, "a list of all topics has the visible ones")
    ),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _rule(
        Need(Op.READ, _GROUP),
        Need(
            Op.DESCRIBE,
            _TOPIC,
            "for topics by name; an expression finds the visible ones only",
            over="subscribed_topic_names",
            fails_all=True,
        ),
    ),
    ApiKey.CONSUMER_GROUP_DESCRIBE: _rule(
        Need(Op.DESCRIBE, _GROUP),
        _asked(Op.DESCRIBE, _TOPIC, "for topics that its members use"),
        refused_first=True,
    ),
    ApiKey.DESCRIBE_ACLS: _administration(Op.DESCRIBE),
    ApiKey.CREATE_ACLS: _administration(Op.ALTER),
    ApiKey.DELETE_ACLS: _administration(Op.ALTER),
    ApiKey.CREATE_DELEGATION_TOKEN: _rule(
        _asked(Op.CREATE_TOKENS, _USER, "for a token of another user")
    ),
    ApiKey.RENEW_DELEGATION_TOKEN: _rule(),
    ApiKey.EXPIRE_DELEGATION_TOKEN: _rule(),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: _rule(
        _asked(Op.DESCRIBE, _TOKEN, "for tokens of other users; " + _ELSE_LEFT_OUT),
        _asked(Op.DESCRIBE_TOKENS, _USER, "does as well"),
    ),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: _rule(Need(Op.DESCRIBE_CONFIGS, _CLUSTER)),
    ApiKey.ALTER_CLIENT_QUOTAS: _rule(Need(Op.ALTER_CONFIGS, _CLUSTER, says=meaning)),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _rule(Need(Op.DESCRIBE, _CLUSTER)),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _administration(Op.ALTER),
}
"""Every API that is not free, on any listener."""
