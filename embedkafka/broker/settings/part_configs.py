"""Turns the broker's settings into the config class of each part.

A field of such a class has the name of a setting, with `_` for each dot, and its value; a function
here supplies the fields whose values differ from the settings'.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from embedkafka.broker.controller.core import ControllerConfig
from embedkafka.broker.log.cleaning.cleaner import CleanerConfig
from embedkafka.broker.log.manager import LogManagerConfig
from embedkafka.broker.log.producers.state import ProducerStateConfig
from embedkafka.broker.replica.config import ReplicaConfig
from embedkafka.broker.settings.broker import BrokerConfig
from embedkafka.broker.settings.broker_keys import (
    BROKER_KEYS,
    assignor_name,
    parse_ip_overrides,
    parse_release,
)
from embedkafka.broker.settings.listener_keys import LISTENER_PREFIX
from embedkafka.broker.settings.listeners import Listeners, NamedListener
from embedkafka.wire.net.channel_authenticator import NewAuthenticator
from embedkafka.wire.net.limits import UNLIMITED, Limits, ListenerLimits
from embedkafka.wire.net.socket_server import ListenerConfig, ServerConfig
from embedkafka.wire.net.transport import Encrypt

if TYPE_CHECKING:
    from embedkafka.broker.coordinator.groups.config import GroupConfig
    from embedkafka.broker.coordinator.transactions.config import TxnConfig
    from embedkafka.security.acl.authorizer import AuthorizerConfig
    from embedkafka.security.quotas.client_quotas import QuotaWindows
    from embedkafka.security.tokens import TokenSettings

_Part = TypeVar("_Part")

_TRUNCATION_ON_FETCH = parse_release("2.7-IV1")
_CONNECT_TIMEOUT_MS = 18_000


def read_part(part: type[_Part], config: BrokerConfig, **others: object) -> _Part:
    """The config of a part: each field named after a setting, and `others`."""
    settings = {
        field: config[key]
        for field, key in keys_of(part).items()
        if field not in others and key in BROKER_KEYS
    }
    return part(**settings, **others)


def keys_of(part: type) -> Mapping[str, str]:
    """What the setting of each field would be called."""
    return {field: field.replace("_", ".") for field in part.__annotations__}


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
    return read_part(
        Limits,
        config,
        max_connections_per_ip_overrides=parse_ip_overrides(
            config.text("max.connections.per.ip.overrides")
        ),
        of_listeners={name: limits for name, limits in own.items() if limits != ListenerLimits()},
        spared_listener=listeners.inter_broker if len(clients) > 1 else None,
        connections_max_idle_ms=idle_ms if idle_ms >= 0 else None,
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

    return read_part(TokenSettings, config, delegation_token_secret_key=secret_key)


def quota_windows(config: BrokerConfig) -> "QuotaWindows":
    from embedkafka.security.quotas.client_quotas import QuotaWindows  # only with quotas

    return read_part(QuotaWindows, config)


def queued_max_bytes(config: BrokerConfig) -> int | None:
    max_bytes = config.integer("queued.max.request.bytes")
    return max_bytes if max_bytes > 0 else None


def replica_config(config: BrokerConfig) -> ReplicaConfig:
    release = parse_release(config.text("inter.broker.protocol.version"))
    return read_part(ReplicaConfig, config, truncates_on_fetch=release >= _TRUNCATION_ON_FETCH)


def controller_config(config: BrokerConfig, listeners: Listeners) -> ControllerConfig:
    return read_part(
        ControllerConfig,
        config,
        inter_broker_listener=listeners.inter_broker,
        control_plane_listener=listeners.control.name,
    )


def log_manager_config(config: BrokerConfig) -> LogManagerConfig:
    # `txn_verification` decides per request, because the setting can change.
    producers = read_part(ProducerStateConfig, config, verifies_transactions=True)
    return read_part(LogManagerConfig, config, producers=producers)


def cleaner_config(config: BrokerConfig) -> CleanerConfig:
    return read_part(CleanerConfig, config)


def group_config(config: BrokerConfig) -> "GroupConfig":
    from embedkafka.broker.coordinator.groups.config import (  # once there are groups
        GroupConfig,
        MigrationPolicy,
    )

    return read_part(
        GroupConfig,
        config,
        group_consumer_assignors=tuple(
            map(assignor_name, config.items("group.consumer.assignors"))
        ),
        group_consumer_migration_policy=MigrationPolicy(
            config.text("group.consumer.migration.policy")
        ),
    )


def txn_config(config: BrokerConfig) -> "TxnConfig":
    from embedkafka.broker.coordinator.transactions.config import (
        TxnConfig,  # once there are transactions
    )

    return read_part(TxnConfig, config)


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
