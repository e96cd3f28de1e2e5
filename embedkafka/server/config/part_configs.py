"""Turns the broker's settings into the config class of each part."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from embedkafka.controller.core import ControllerConfig
from embedkafka.log.cleaning.cleaner import CleanerConfig
from embedkafka.log.manager import LogManagerConfig
from embedkafka.log.producers.state import ProducerStateConfig
from embedkafka.net.authentication import NewAuthenticator
from embedkafka.net.limits import UNLIMITED, Limits, ListenerLimits
from embedkafka.net.socket_server import ListenerConfig, ServerConfig
from embedkafka.net.transport import Encrypt
from embedkafka.records.compression import Compression
from embedkafka.replica.config import ReplicaConfig
from embedkafka.server.config.broker import BrokerConfig
from embedkafka.server.config.broker_keys import assignor_name, parse_ip_overrides, parse_release
from embedkafka.server.config.listener_keys import LISTENER_PREFIX
from embedkafka.server.config.listeners import Listeners, NamedListener

if TYPE_CHECKING:
    from embedkafka.group.config import GroupConfig
    from embedkafka.security.acl.authorizer import AuthorizerConfig
    from embedkafka.security.quotas.client_quotas import QuotaWindows
    from embedkafka.security.tokens import TokenSettings
    from embedkafka.txn.config import TxnConfig

_MINUTE_MS = 60_000
_TRUNCATION_ON_FETCH = parse_release("2.7-IV1")
_CONNECT_TIMEOUT_MS = 18_000


def server_config(
    config: BrokerConfig,
    listeners: Listeners,
    find_authenticators: Callable[[NamedListener], NewAuthenticator | None],
    find_encrypt: Callable[[str], Encrypt | None],
) -> ServerConfig:
    return ServerConfig(
        listeners=[
            ListenerConfig(
                name=listener.name,
                host=listener.host,
                port=listener.port,
                is_control_plane=listener.is_control_plane,
                new_authenticator=find_authenticators(listener),
                encrypt=find_encrypt(listener.name),
            )
            for listener in listeners.all
        ],
        limits=limits(config, listeners),
        num_network_threads=config.integer("num.network.threads"),
        backlog=config.integer("socket.listen.backlog.size"),
    )


def limits(config: BrokerConfig, listeners: Listeners) -> Limits:
    idle_ms = config.integer("connections.max.idle.ms")
    clients = [one.name for one in listeners.clients]
    own = {name: _listener_limits(config, name) for name in clients}
    return Limits(
        max_connections=config.integer("max.connections"),
        max_connections_per_ip=config.integer("max.connections.per.ip"),
        max_connections_per_ip_overrides=parse_ip_overrides(
            config.text("max.connections.per.ip.overrides")
        ),
        max_connection_creation_rate=config.integer("max.connection.creation.rate"),
        of_listeners={name: limits for name, limits in own.items() if limits != ListenerLimits()},
        spared_listener=listeners.inter_broker if len(clients) > 1 else None,
        rate_windows=config.integer("quota.window.num"),
        rate_window_ms=1000 * config.integer("quota.window.size.seconds"),
        max_request_bytes=config.integer("socket.request.max.bytes"),
        max_idle_ms=idle_ms if idle_ms >= 0 else None,
    )


def _listener_limits(config: BrokerConfig, listener: str) -> ListenerLimits:
    """Those set for this listener alone; the broker's hold for all of them together."""
    prefix = f"{LISTENER_PREFIX}{listener.lower()}."

    def limit(key: str) -> int:
        value = config.given.get(prefix + key)
        return value if isinstance(value, int) else UNLIMITED

    return ListenerLimits(
        max_connections=limit("max.connections"),
        max_connection_creation_rate=limit("max.connection.creation.rate"),
    )


def authorizer_config(config: BrokerConfig) -> "AuthorizerConfig | None":
    """None without an authorizer."""
    if not config.text("authorizer.class.name"):
        return None
    from embedkafka.security.acl.authorizer import AuthorizerConfig  # only a secured broker

    return AuthorizerConfig.of(
        super_users=config.text("super.users"),
        allow_if_none=config.flag("allow.everyone.if.no.acl.found"),
    )


def find_token_settings(config: BrokerConfig) -> "TokenSettings | None":
    """The settings of delegation tokens; None without a secret key, which disables them."""
    secret_key = config.text("delegation.token.secret.key") or config.text(
        "delegation.token.master.key"
    )
    if not secret_key:
        return None
    from embedkafka.security.tokens import TokenSettings

    return TokenSettings(
        secret_key=secret_key,
        max_lifetime_ms=config.integer("delegation.token.max.lifetime.ms"),
        expiry_time_ms=config.integer("delegation.token.expiry.time.ms"),
    )


def quota_windows(config: BrokerConfig) -> "QuotaWindows":
    from embedkafka.security.quotas.client_quotas import QuotaWindows  # only with quotas

    return QuotaWindows(
        windows=config.integer("quota.window.num"),
        window_ms=1000 * config.integer("quota.window.size.seconds"),
        controller_windows=config.integer("controller.quota.window.num"),
        controller_window_ms=1000 * config.integer("controller.quota.window.size.seconds"),
    )


def queued_max_bytes(config: BrokerConfig) -> int | None:
    max_bytes = config.integer("queued.max.request.bytes")
    return max_bytes if max_bytes > 0 else None


def replica_config(config: BrokerConfig) -> ReplicaConfig:
    return ReplicaConfig(
        lag_time_max_ms=config.integer("replica.lag.time.max.ms"),
        fetch_wait_max_ms=config.integer("replica.fetch.wait.max.ms"),
        fetch_min_bytes=config.integer("replica.fetch.min.bytes"),
        fetch_max_bytes=config.integer("replica.fetch.max.bytes"),
        fetch_response_max_bytes=config.integer("replica.fetch.response.max.bytes"),
        fetch_backoff_ms=config.integer("replica.fetch.backoff.ms"),
        high_watermark_checkpoint_interval_ms=config.integer(
            "replica.high.watermark.checkpoint.interval.ms"
        ),
        selector_class=config.text("replica.selector.class") or None,
        isr_change_linger_ms=config.integer("internal.isr.change.linger.ms"),
        truncates_on_fetch=parse_release(config.text("inter.broker.protocol.version"))
        >= _TRUNCATION_ON_FETCH,
        producer_purge_interval_requests=config.integer(
            "producer.purgatory.purge.interval.requests"
        ),
        fetch_purge_interval_requests=config.integer("fetch.purgatory.purge.interval.requests"),
        delete_records_purge_interval_requests=config.integer(
            "delete.records.purgatory.purge.interval.requests"
        ),
        quota_window_num=config.integer("replication.quota.window.num"),
        quota_window_size_ms=1000 * config.integer("replication.quota.window.size.seconds"),
    )


def controller_config(config: BrokerConfig, listeners: Listeners) -> ControllerConfig:
    return ControllerConfig(
        inter_broker_listener=listeners.inter_broker,
        control_plane_listener=listeners.control.name,
        auto_leader_rebalance_enable=config.flag("auto.leader.rebalance.enable"),
        leader_imbalance_check_interval_ms=1000
        * config.integer("leader.imbalance.check.interval.seconds"),
        leader_imbalance_per_broker_percentage=config.integer(
            "leader.imbalance.per.broker.percentage"
        ),
        delete_topic_enable=config.flag("delete.topic.enable"),
        unclean_leader_election_enable=config.flag("unclean.leader.election.enable"),
    )


def log_manager_config(config: BrokerConfig) -> LogManagerConfig:
    return LogManagerConfig(
        log_retention_check_interval_ms=config.integer("log.retention.check.interval.ms"),
        log_flush_scheduler_interval_ms=config.integer("log.flush.scheduler.interval.ms"),
        log_flush_offset_checkpoint_interval_ms=config.integer(
            "log.flush.offset.checkpoint.interval.ms"
        ),
        log_flush_start_offset_checkpoint_interval_ms=config.integer(
            "log.flush.start.offset.checkpoint.interval.ms"
        ),
        log_initial_task_delay_ms=config.integer("log.initial.task.delay.ms"),
        replica_alter_log_dirs_io_max_bytes_per_second=config.integer(
            "replica.alter.log.dirs.io.max.bytes.per.second"
        ),
        producer_id_expiration_check_interval_ms=config.integer(
            "producer.id.expiration.check.interval.ms"
        ),
        producers=ProducerStateConfig(
            expiration_ms=config.integer("producer.id.expiration.ms"),
            # `txn_verification` decides per request, because the setting can change.
            verifies_transactions=True,
        ),
    )


def cleaner_config(config: BrokerConfig) -> CleanerConfig:
    return CleanerConfig(
        log_cleaner_enable=config.flag("log.cleaner.enable"),
        log_cleaner_backoff_ms=config.integer("log.cleaner.backoff.ms"),
        log_cleaner_dedupe_buffer_size=config.integer("log.cleaner.dedupe.buffer.size"),
        log_cleaner_io_buffer_load_factor=config.number("log.cleaner.io.buffer.load.factor"),
        log_cleaner_io_max_bytes_per_second=config.number("log.cleaner.io.max.bytes.per.second"),
        log_cleaner_threads=config.integer("log.cleaner.threads"),
    )


def group_config(config: BrokerConfig) -> "GroupConfig":
    from embedkafka.group.config import GroupConfig, MigrationPolicy  # once there are groups

    return GroupConfig(
        offsets_topic_num_partitions=config.integer("offsets.topic.num.partitions"),
        offsets_topic_compression=Compression(config.integer("offsets.topic.compression.codec")),
        group_min_session_timeout_ms=config.integer("group.min.session.timeout.ms"),
        group_max_session_timeout_ms=config.integer("group.max.session.timeout.ms"),
        group_initial_rebalance_delay_ms=config.integer("group.initial.rebalance.delay.ms"),
        group_max_size=config.integer("group.max.size"),
        offset_metadata_max_bytes=config.integer("offset.metadata.max.bytes"),
        offsets_retention_ms=config.integer("offsets.retention.minutes") * _MINUTE_MS,
        offsets_retention_check_interval_ms=config.integer("offsets.retention.check.interval.ms"),
        consumer_session_timeout_ms=config.integer("group.consumer.session.timeout.ms"),
        consumer_heartbeat_interval_ms=config.integer("group.consumer.heartbeat.interval.ms"),
        consumer_assignors=tuple(map(assignor_name, config.items("group.consumer.assignors"))),
        consumer_group_max_size=config.integer("group.consumer.max.size"),
        consumer_migration_policy=MigrationPolicy(config.text("group.consumer.migration.policy")),
    )


def txn_config(config: BrokerConfig) -> "TxnConfig":
    from embedkafka.txn.config import TxnConfig  # once there are transactions

    return TxnConfig(
        num_partitions=config.integer("transaction.state.log.num.partitions"),
        max_timeout_ms=config.integer("transaction.max.timeout.ms"),
        transactional_id_expiration_ms=config.integer("transactional.id.expiration.ms"),
        abort_timed_out_interval_ms=config.integer(
            "transaction.abort.timed.out.transaction.cleanup.interval.ms"
        ),
        remove_expired_interval_ms=config.integer(
            "transaction.remove.expired.transaction.cleanup.interval.ms"
        ),
    )


def zookeeper_connect_timeout_ms(config: BrokerConfig) -> int:
    return int(config.text("zookeeper.connection.timeout.ms") or _CONNECT_TIMEOUT_MS)


def internal_topic_settings(
    config: BrokerConfig, *, group: bool
) -> tuple[int, int, dict[str, str]]:
    """Partition count, replication factor and settings of an internal topic, as in Kafka."""
    prefix = "offsets.topic" if group else "transaction.state.log"
    topic = {
        "cleanup.policy": "compact",
        "compression.type": "producer" if group else "uncompressed",
        "segment.bytes": str(config.integer(f"{prefix}.segment.bytes")),
    }
    if not group:
        topic["min.insync.replicas"] = str(config.integer(f"{prefix}.min.isr"))
        topic["unclean.leader.election.enable"] = "false"
    return (
        config.integer(f"{prefix}.num.partitions"),
        config.integer(f"{prefix}.replication.factor"),
        topic,
    )
