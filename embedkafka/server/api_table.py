"""The requests this broker answers: api key -> versions, function, plane.

This table is the whole truth: the ApiVersions answer and `docs/compatibility.md` come from it. It
names functions instead of importing them, so a broker loads only the message families it needs.
"""

import functools
import importlib
from collections.abc import Callable, Mapping
from typing import Any, Final

from embedkafka.protocol.api_keys import ApiKey
from embedkafka.runtime.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """One row: the oldest and newest version answered, and the handler as `module.function`."""

    versions: tuple[int, int]
    handler: str
    for_clients: bool = True
    for_controllers: bool = False
    is_offered: bool = True
    """Whether ApiVersions lists it."""

    def is_served(self, *, control_plane: bool) -> bool:
        """Whether the control plane's listener, or that of clients, answers it."""
        return self.for_controllers if control_plane else self.for_clients

    def supports(self, version: int) -> bool:
        return self.versions[0] <= version <= self.versions[1]


@functools.cache
def load_handler(handler: str) -> Callable[..., Any]:  # Any: each row has its own message types
    """The function behind a row's `handler`."""
    module, function = handler.split(".")
    loaded = importlib.import_module(f"embedkafka.server.handlers.{module}")
    return getattr(loaded, function)  # type: ignore[no-any-return]  # looked up by name


def _client(first: int, last: int, handler: str) -> Api:
    return Api(versions=(first, last), handler=handler)


def _control(first: int, last: int, handler: str) -> Api:
    return Api(versions=(first, last), handler=handler, for_clients=False, for_controllers=True)


def _unoffered(first: int, last: int, handler: str) -> Api:
    """Answered, but for clients that ask for it without being offered it."""
    return Api(versions=(first, last), handler=handler, is_offered=False)


def _both(first: int, last: int, handler: str) -> Api:
    """For clients, and for tools that connect to controllers (`--bootstrap-controller`)."""
    return Api(versions=(first, last), handler=handler, for_controllers=True)


HANDLERS: Final[Mapping[ApiKey, Api]] = {
    ApiKey.PRODUCE: _client(0, 13, "produce.produce"),
    ApiKey.FETCH: _client(0, 18, "fetch.fetch"),
    ApiKey.LIST_OFFSETS: _client(0, 11, "offsets.list_offsets"),
    ApiKey.METADATA: _client(0, 13, "metadata.metadata"),
    ApiKey.LEADER_AND_ISR: _control(5, 7, "control.leader_and_isr"),
    ApiKey.STOP_REPLICA: _control(3, 4, "control.stop_replica"),
    ApiKey.UPDATE_METADATA: _control(5, 8, "control.update_metadata"),
    ApiKey.CONTROLLED_SHUTDOWN: _control(2, 3, "control.controlled_shutdown"),
    ApiKey.OFFSET_COMMIT: _client(0, 10, "groups.offset_commit"),
    ApiKey.OFFSET_FETCH: _client(0, 10, "groups.offset_fetch"),
    ApiKey.FIND_COORDINATOR: _client(0, 6, "groups.find_coordinator"),
    ApiKey.JOIN_GROUP: _client(0, 9, "groups.join_group"),
    ApiKey.HEARTBEAT: _client(0, 4, "groups.heartbeat"),
    ApiKey.LEAVE_GROUP: _client(0, 5, "groups.leave_group"),
    ApiKey.SYNC_GROUP: _client(0, 5, "groups.sync_group"),
    ApiKey.DESCRIBE_GROUPS: _client(0, 6, "groups.describe_groups"),
    ApiKey.LIST_GROUPS: _client(0, 5, "groups.list_groups"),
    ApiKey.DELETE_GROUPS: _client(0, 2, "groups.delete_groups"),
    ApiKey.OFFSET_DELETE: _client(0, 0, "groups.offset_delete"),
    ApiKey.API_VERSIONS: _both(0, 4, "metadata.api_versions"),
    ApiKey.CREATE_TOPICS: _client(0, 7, "topics.create_topics"),
    ApiKey.DELETE_TOPICS: _client(0, 6, "topics.delete_topics"),
    ApiKey.CREATE_PARTITIONS: _client(0, 3, "topics.create_partitions"),
    ApiKey.DELETE_RECORDS: _client(0, 2, "offsets.delete_records"),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _client(0, 4, "offsets.offset_for_leader_epoch"),
    ApiKey.INIT_PRODUCER_ID: _client(0, 5, "txns.init_producer_id"),
    ApiKey.ADD_PARTITIONS_TO_TXN: _client(0, 5, "txns.add_partitions_to_txn"),
    ApiKey.ADD_OFFSETS_TO_TXN: _client(0, 4, "txns.add_offsets_to_txn"),
    ApiKey.END_TXN: _client(0, 5, "txns.end_txn"),
    ApiKey.WRITE_TXN_MARKERS: _client(1, 2, "txns.write_txn_markers"),
    ApiKey.TXN_OFFSET_COMMIT: _client(0, 5, "txns.txn_offset_commit"),
    ApiKey.DESCRIBE_CONFIGS: _both(0, 4, "configs.describe_configs"),
    ApiKey.ALTER_CONFIGS: _client(0, 2, "configs.alter_configs"),
    ApiKey.ELECT_LEADERS: _client(0, 2, "leadership.elect_leaders"),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _both(0, 1, "configs.incremental_alter_configs"),
    ApiKey.LIST_CONFIG_RESOURCES: _client(0, 1, "configs.list_config_resources"),
    ApiKey.ALTER_REPLICA_LOG_DIRS: _client(0, 2, "offsets.alter_replica_log_dirs"),
    ApiKey.DESCRIBE_LOG_DIRS: _client(0, 5, "offsets.describe_log_dirs"),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _client(0, 1, "leadership.alter_partition_reassignments"),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _client(0, 0, "leadership.list_partition_reassignments"),
    ApiKey.DESCRIBE_PRODUCERS: _client(0, 0, "txns.describe_producers"),
    ApiKey.DESCRIBE_TRANSACTIONS: _client(0, 0, "txns.describe_transactions"),
    ApiKey.LIST_TRANSACTIONS: _client(0, 2, "txns.list_transactions"),
    ApiKey.UPDATE_FEATURES: _both(0, 2, "features.update_features"),
    ApiKey.DESCRIBE_QUORUM: _both(0, 2, "quorum.describe_quorum"),
    ApiKey.UNREGISTER_BROKER: _both(0, 0, "cluster.unregister_broker"),
    ApiKey.ADD_RAFT_VOTER: _both(0, 1, "quorum.add_raft_voter"),
    ApiKey.REMOVE_RAFT_VOTER: _both(0, 0, "quorum.remove_raft_voter"),
    ApiKey.UPDATE_RAFT_VOTER: _control(0, 0, "quorum.update_raft_voter"),
    ApiKey.DESCRIBE_CLUSTER: _both(0, 2, "cluster.describe_cluster"),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: _client(0, 0, "metadata.describe_topic_partitions"),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _client(0, 1, "groups.consumer_group_heartbeat"),
    ApiKey.CONSUMER_GROUP_DESCRIBE: _client(0, 1, "groups.consumer_group_describe"),
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: _unoffered(0, 0, "telemetry.get_telemetry_subscriptions"),
    ApiKey.PUSH_TELEMETRY: _unoffered(0, 0, "telemetry.push_telemetry"),
    ApiKey.SASL_HANDSHAKE: _client(0, 1, "sasl.sasl_handshake"),
    ApiKey.SASL_AUTHENTICATE: _client(0, 2, "sasl.sasl_authenticate"),
    ApiKey.DESCRIBE_ACLS: _client(1, 3, "acls.describe_acls"),
    ApiKey.CREATE_ACLS: _client(1, 3, "acls.create_acls"),
    ApiKey.DELETE_ACLS: _client(1, 3, "acls.delete_acls"),
    ApiKey.CREATE_DELEGATION_TOKEN: _client(1, 3, "tokens.create_delegation_token"),
    ApiKey.RENEW_DELEGATION_TOKEN: _client(1, 2, "tokens.renew_delegation_token"),
    ApiKey.EXPIRE_DELEGATION_TOKEN: _client(1, 2, "tokens.expire_delegation_token"),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: _client(1, 3, "tokens.describe_delegation_token"),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: _client(0, 1, "quotas.describe_client_quotas"),
    ApiKey.ALTER_CLIENT_QUOTAS: _client(0, 1, "quotas.alter_client_quotas"),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _client(0, 0, "sasl.describe_user_scram_credentials"),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _client(0, 0, "sasl.alter_user_scram_credentials"),
}
