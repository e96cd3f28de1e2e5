"""What a user asks of a cluster: frozen settings, with defaults tuned for tests."""

import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from embedkafka.runtime.failures import ConfigError, ConfigWarning
from embedkafka.runtime.values import dataclass, field
from embedkafka.server.config.broker import holds_here, idle_settings, parse_broker_settings
from embedkafka.server.config.definition import ConfigValue
from embedkafka.server.config.listeners import Advertised, parse_advertised
from embedkafka.server.config.topic import parse_topic_settings

_PACKAGE: Final = __name__.partition(".")[0]

TEST_DEFAULTS: Final[Mapping[str, object]] = {
    # Kafka's defaults serve clusters that run for years; these serve ones that live for seconds.
    # Each can be set back with `config=`.
    "num.io.threads": 0,  # processors run requests themselves: no hand-over between threads
    "num.network.threads": 1,
    "socket.listen.backlog.size": 1024,  # clients of a test all come at once
    "group.initial.rebalance.delay.ms": 0,  # a group of one need not wait for others
    "group.min.session.timeout.ms": 100,
    "group.consumer.heartbeat.interval.ms": 100,  # how soon a member hears of its partitions
    "group.consumer.min.heartbeat.interval.ms": 100,
    # Retention first looks after its own interval: tests write records with old timestamps.
    "log.initial.task.delay.ms": 300_000,
    "add.partitions.to.txn.retry.backoff.ms": 2,  # the next transaction begins sooner
    "offsets.topic.num.partitions": 5,
    "transaction.state.log.num.partitions": 5,
    "zookeeper.session.timeout.ms": 300,  # a killed broker is missed after this long
    "replica.lag.time.max.ms": 500,
    "replica.fetch.backoff.ms": 50,
    "controlled.shutdown.retry.backoff.ms": 200,  # its retries outlast a controller's session
    "leader.imbalance.check.interval.seconds": 5,
}

REMOTE_DEFAULTS: Final[Mapping[str, object]] = {
    # A real ZooKeeper lives in real time, and its heartbeats cross a busy machine.
    "zookeeper.session.timeout.ms": 4_000,  # the shortest that one as shipped grants
    "replica.lag.time.max.ms": 2_000,
}

_NO_REQUEST: Final = "followers in one process read from their leader without a request"

DECIDED_HERE: Final[Mapping[str, str]] = {
    # A properties file of Kafka, or of Spark's own tests, names all of these.
    "listeners": "`host` and `port` say where brokers listen",
    "log.dir": "`data_dir` says where logs are kept",
    "log.dirs": "`data_dir` says where logs are kept",
    "replica.fetch.min.bytes": _NO_REQUEST,
    "replica.fetch.response.max.bytes": _NO_REQUEST,
    "replica.socket.timeout.ms": _NO_REQUEST,
    "zookeeper.connect": "`zookeeper` says which one to use",
}
"""Broker settings that have no effect in a cluster of one process, with the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSpec:
    """A topic to create: `replication=None` takes the brokers' default."""

    partitions: int = 1
    replication: int | None = None
    config: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.partitions < 1:
            raise ConfigError(f"a topic needs at least one partition, got {self.partitions}")
        if self.replication is not None and self.replication < 1:
            raise ConfigError(f"a topic needs at least one replica, got {self.replication}")
        parse_topic_settings(self.config)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig:
    """A cluster to start.

    `config` holds broker settings by Kafka's names and goes to every broker. `port` 0 lets the
    kernel choose; otherwise brokers listen on `port`, `port + 1` and so on. Their ids count from
    `broker.id` or `node.id`, else from 1. `advertised.listeners` is what clients are told: its
    host, and when `port` is given its port, counted up in the same way. `racks` has one entry per
    broker. `data_dir` None means a private directory that `close()` removes. `zookeeper` is a real
    one at `host:port,...[/chroot]`, of which this cluster is the only user; None is one in this
    process. Each broker spreads its logs over `log_dirs` directories.
    """

    brokers: int = 1
    config: Mapping[str, object] = field(default_factory=dict)
    topics: Mapping[str, "int | TopicSpec"] = field(default_factory=dict)
    data_dir: Path | None = None
    host: str = "127.0.0.1"
    port: int = 0
    racks: Sequence[str] | None = None
    zookeeper: str | None = None
    log_dirs: int = 1

    def __post_init__(self) -> None:
        if self.brokers < 1:
            raise ConfigError(f"a cluster needs at least one broker, got {self.brokers}")
        if self.log_dirs < 1:
            raise ConfigError(f"a broker needs at least one log directory, got {self.log_dirs}")
        if not 0 <= self.port <= 65_536 - self.brokers:
            raise ConfigError(f"port {self.port} leaves no room for {self.brokers} brokers")
        if self.racks is not None and len(self.racks) != self.brokers:
            raise ConfigError(f"{len(self.racks)} racks for {self.brokers} brokers")
        parse_broker_settings(self.config)
        self.advertised(self.first_id)
        warn_of_idle_settings(self.config, decided=DECIDED_HERE)
        for name in self.topics:
            self.topic_spec(name)

    @property
    def first_id(self) -> int:
        given = (int(str(self.config.get(name, -1))) for name in ("broker.id", "node.id"))
        return next((number for number in given if number >= 0), 1)

    def advertised(self, broker_id: int) -> Advertised:
        """What one broker tells clients; a free port is not known beforehand."""
        given = parse_advertised(str(self.config.get("advertised.listeners") or ""))
        port = given.port + broker_id - self.first_id if given.port and self.port else 0
        return given._replace(port=port)

    def topic_spec(self, name: str) -> TopicSpec:
        spec = self.topics[name]
        return spec if isinstance(spec, TopicSpec) else TopicSpec(partitions=spec)

    def broker_settings(self) -> dict[str, ConfigValue]:
        """Typed settings for every broker: the user's over those for tests."""
        remote = {} if self.zookeeper is None else REMOTE_DEFAULTS
        return parse_broker_settings(
            {**TEST_DEFAULTS, **remote, **_sized(self.brokers), **self.config}
        )


def warn_of_idle_settings(config: Mapping[str, object], *, decided: Mapping[str, str]) -> None:
    """Warns of the user's settings that do nothing; `decided` are those set elsewhere."""
    idle = idle_settings(config) | {
        name: decided[name]
        for name, value in config.items()
        if name in decided and not holds_here(name, value)
    }
    for name, reason in idle.items():
        warnings.warn(
            f"broker setting {name} has no effect: {reason}",
            ConfigWarning,
            stacklevel=_calls_within_package(),
        )


def _calls_within_package() -> int:
    """How far up the code of the user is, at which a warning should point."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__")):
        level, frame = level + 1, frame.f_back
    return level


def _is_ours(module: str | None) -> bool:
    # The code that `runtime.values` generates belongs to no module.
    return module is None or module.partition(".")[0] == _PACKAGE


def _sized(brokers: int) -> dict[str, object]:
    """Internal topics are replicated as in production, as far as there are brokers for it."""
    replicas = min(3, brokers)
    return {
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": min(2, replicas),
    }
