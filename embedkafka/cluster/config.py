"""`ClusterConfig` and `TopicSpec`: a user's settings, checked at once, with defaults for tests."""

import itertools
import re
import sys
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from embedkafka.broker.settings.broker import (
    holds_here,
    idle_settings,
    items_left_out,
    parse_broker_settings,
)
from embedkafka.broker.settings.definition import ConfigValue, format_value
from embedkafka.broker.settings.listeners import AS_SET, MAX_PORT, Placement, plan_listeners
from embedkafka.broker.settings.topic import parse_topic_settings
from embedkafka.runtime.addresses import is_wildcard
from embedkafka.runtime.arguments import (
    MAX_INT16,
    MAX_INT32,
    Refusal,
    find_text_fault,
    require_int,
    require_known,
    require_mapping,
    require_path,
    require_text,
    shown,
)
from embedkafka.runtime.failures import ConfigError, ConfigWarning, InvalidArgument
from embedkafka.runtime.problems import Problems
from embedkafka.runtime.topic_names import name_fault
from embedkafka.runtime.values import NamedTuple, dataclass, field

if TYPE_CHECKING:
    from embedkafka.cluster.access.security import Security

KILL: Final = "kill"
POWER: Final = "power"
_FOR_TESTS: Final = "tests"
_AS_KAFKA: Final = "kafka"

_FLUSH_KEY: Final = "log.flush.interval.messages"

_MOST: Final = 1000
"""Brokers, and log directories of each: a process cannot hold more."""
_PACKAGE: Final = __name__.partition(".")[0]
_HOST: Final = r"[^\s/:,\[\]]+|[\da-fA-F.:]*:[\da-fA-F.:]*:[\da-fA-F.:]*"
"""A name, or an address of either kind."""

TEST_DEFAULTS: Final[Mapping[str, object]] = {
    # Kafka's defaults suit clusters that run for years; these suit clusters that live for seconds.
    # `config=` overrides each of them.
    "num.io.threads": 0,  # processors handle requests themselves: no hand-over to a pool
    "num.network.threads": 1,
    "socket.listen.backlog.size": 1024,  # a test's clients connect all at once
    "group.initial.rebalance.delay.ms": 0,  # a group of one waits for no others
    "group.min.session.timeout.ms": 100,
    "group.consumer.heartbeat.interval.ms": 100,  # how soon a member learns its partitions
    "group.consumer.min.heartbeat.interval.ms": 100,
    # Retention first runs after one interval: tests write records with old timestamps.
    "log.initial.task.delay.ms": 300_000,
    "add.partitions.to.txn.retry.backoff.ms": 2,  # lets the next transaction begin sooner
    "offsets.topic.num.partitions": 5,
    "transaction.state.log.num.partitions": 5,
    "zookeeper.session.timeout.ms": 300,  # how soon a killed broker is noticed
    "replica.lag.time.max.ms": 500,
    "internal.isr.change.linger.ms": 10,  # how soon other brokers' metadata show an ISR
    "replica.fetch.backoff.ms": 50,
    "controlled.shutdown.retry.backoff.ms": 200,  # retries outlast the session of a dead controller
    "leader.imbalance.check.interval.seconds": 5,
}

REMOTE_DEFAULTS: Final[Mapping[str, object]] = {
    # A real ZooKeeper runs in real time, and heartbeats are late on a busy machine.
    "zookeeper.session.timeout.ms": 4_000,  # the shortest that ZooKeeper grants by default
    "replica.lag.time.max.ms": 2_000,
}

_NO_REQUEST: Final = "followers in one process read from their leader without a request"

DECIDED_HERE: Final[Mapping[str, str]] = {
    # The properties files of Kafka and of Spark's own tests set all of these.
    "log.dir": "use `data_dir`",
    "log.dirs": "use `data_dir` and `log_dirs`",
    "replica.fetch.min.bytes": _NO_REQUEST,
    "replica.fetch.response.max.bytes": _NO_REQUEST,
    "replica.socket.timeout.ms": _NO_REQUEST,
    "zookeeper.connect": "use `zookeeper`",
}
"""Broker settings that have no effect in a cluster of one process, with reasons."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSpec:
    """A topic to create when the cluster starts.

        EmbeddedKafka(topics={"orders": TopicSpec(partitions=3, config={"retention.ms": 60_000})})

    Raises `ConfigError` for values that no topic can have.
    """

    partitions: int = 1
    """The number of partitions, at least 1."""
    replication: int | None = None
    """The number of replicas; None takes the brokers' `default.replication.factor`, which is 1."""
    config: Mapping[str, object] = field(default_factory=dict)
    """Topic settings by Kafka's names, such as `{"cleanup.policy": "compact"}`."""

    def __post_init__(self) -> None:
        problems = Problems()
        problems.check(
            lambda: require_int(
                "partitions", self.partitions, least=1, most=MAX_INT32, refusal=ConfigError
            )
        )
        if self.replication is not None:
            problems.check(
                lambda: require_int(
                    "replication", self.replication, least=1, most=MAX_INT16, refusal=ConfigError
                )
            )
        config = _usable_settings(self.config, '{"retention.ms": 60000}', problems)
        bad = [
            name
            for name, value in config.items()
            if not problems.check(partial(parse_topic_settings, {name: value}))
        ]
        if not bad:
            problems.check(lambda: parse_topic_settings(config))
        problems.raise_all()


class TopicShape(NamedTuple):
    """What a test says of a topic that it creates; not checked yet."""

    partitions: int
    replication: int | None
    config: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig:
    """The settings of a cluster, as `EmbeddedKafka` takes them.

    Raises one `ConfigError` for all settings that do not exist or have invalid values. Broker
    settings that exist in Kafka and have no effect here produce a `ConfigWarning`.
    """

    brokers: int = 1
    """How many brokers to start. Their ids count from `broker.id` or `node.id`, else from 1."""
    config: Mapping[str, object] = field(default_factory=dict)
    """Broker settings by Kafka's names; every broker gets them. Fixed ports in `listeners` and
    `advertised.listeners` count up from broker to broker."""
    topics: Mapping[str, "int | TopicSpec"] = field(default_factory=dict)
    """Topics to create at the start, by name: the number of partitions, or a `TopicSpec`."""
    data_dir: Path | None = None
    """The directory that keeps the data. None uses a temporary one, which `close()` removes."""
    durability: str = KILL
    """What acknowledged data in `data_dir` survives: `"kill"`, the end of the process, however it
    ends; `"power"`, also a loss of power, because every write waits for the disk."""
    host: str | None = None
    """The address that brokers listen on for clients. None takes those of `listeners`, or else
    127.0.0.1. On 0.0.0.0 or ::, clients are given this machine's own address."""
    port: int = 0
    """The first broker's port for clients; the others take the following ones. 0 takes those of
    `listeners`, or else free ports. The listener's address in `advertised.listeners` moves too."""
    advertise: str | None = None
    """The host that clients are given, with the ports that brokers listen on. None gives them
    `advertised.listeners`, or else what the brokers listen on."""
    racks: Sequence[str] | None = None
    """The rack of each broker, Kafka's `broker.rack`: one entry per broker."""
    zookeeper: str | None = None
    """A real ZooKeeper at `host:port,...[/chroot]`, which no other cluster uses. None keeps the
    tree in this process."""
    log_dirs: int = 1
    """How many log directories each broker has."""
    security: "Security | None" = None
    """How clients log in and what they may do. None leaves that to the settings."""
    defaults: str = _FOR_TESTS
    """What settings are by default: `"tests"`, tuned for clusters that live for seconds;
    `"kafka"`, as in Apache Kafka."""

    def __post_init__(self) -> None:
        problems = Problems()
        can_count = problems.check(
            lambda: require_int("brokers", self.brokers, least=1, most=_MOST, refusal=ConfigError)
        )
        problems.check(
            lambda: require_int("log_dirs", self.log_dirs, least=1, most=_MOST, refusal=ConfigError)
        )
        brokers = self.brokers if can_count else 1
        placement = usable_placement(placement_of(self), problems, brokers=brokers)
        if self.zookeeper is not None:
            problems.check(lambda: require_text("zookeeper", self.zookeeper, refusal=ConfigError))
        if self.data_dir is not None:
            problems.check(lambda: require_path("data_dir", self.data_dir, refusal=ConfigError))
        problems.check(lambda: self._require_racks(self.brokers if can_count else None))
        config = _usable_settings(self.config, '{"num.partitions": 3}', problems)
        secured = problems.attempt(lambda: self._security_settings(config)) or {}
        settings = {**secured, **config}
        problems.check(lambda: parse_broker_settings(settings, placement))
        problems.check(lambda: _require_room(settings, placement, brokers=brokers))
        problems.check(lambda: self._require_durability(config))
        problems.check(self._require_defaults)
        self._require_topics(problems)
        problems.raise_all()
        warn_of_idle_settings(self.config, decided=DECIDED_HERE)

    @property
    def first_id(self) -> int:
        """The id of the first broker."""
        given = (int(str(self.config.get(name, -1))) for name in ("broker.id", "node.id"))
        return next((number for number in given if number >= 0), 1)

    def topic_spec(self, name: str) -> TopicSpec:
        """The entry `name` of `topics`, as a `TopicSpec`."""
        spec = self.topics[require_known("topic", name, self.topics)]
        return spec if isinstance(spec, TopicSpec) else TopicSpec(partitions=spec)

    def _security_settings(self, config: Mapping[str, object]) -> dict[str, object]:
        if self.security is None:
            return {}
        # Most clusters need none.
        from embedkafka.cluster.access.sasl_settings import listener_settings
        from embedkafka.cluster.access.security import Security

        if not isinstance(self.security, Security):
            raise ConfigError(
                f'security must be Security(users={{"alice": "a-secret"}}), '
                f"got {shown(self.security)}"
            )
        return listener_settings(self.security, config)

    def _require_durability(self, config: Mapping[str, object]) -> None:
        if self.durability not in (KILL, POWER):
            raise ConfigError(
                f'durability must be "{KILL}" or "{POWER}", got {shown(self.durability)}'
            )
        if self.durability == POWER and self.data_dir is None:
            raise ConfigError(
                'durability="power" needs data_dir=, because a temporary directory does not '
                "outlive its cluster"
            )
        given = config.get(_FLUSH_KEY, 1)
        if self.durability == POWER and str(given) != "1":
            raise ConfigError(
                f'durability="power" syncs every write: remove {_FLUSH_KEY}={given}, or '
                'take durability="kill"'
            )

    def _require_defaults(self) -> None:
        if self.defaults not in (_FOR_TESTS, _AS_KAFKA):
            raise ConfigError(
                f'defaults must be "{_FOR_TESTS}" or "{_AS_KAFKA}", got {shown(self.defaults)}'
            )

    def _require_racks(self, brokers: int | None) -> None:
        if self.racks is None:
            return
        is_list = isinstance(self.racks, Sequence) and not isinstance(self.racks, str)
        if not is_list or not all(isinstance(rack, str) for rack in self.racks):
            raise ConfigError(f'racks must be a list such as ["a", "b"], got {shown(self.racks)}')
        for rack in filter(None, self.racks):
            require_text("a rack", rack, refusal=ConfigError)
        if brokers not in (None, len(self.racks)):
            raise ConfigError(
                f"racks must have one entry for each of the {brokers} brokers, got "
                f"{len(self.racks)}: {list(self.racks)}"
            )

    def _require_topics(self, problems: Problems) -> None:
        if problems.check(
            lambda: require_mapping("topics", self.topics, '{"orders": 3}', refusal=ConfigError)
        ):
            for name, spec in self.topics.items():
                problems.check(partial(_require_topic, name, spec))


def broker_settings(
    cluster: ClusterConfig, secured: Mapping[str, object] | None = None
) -> dict[str, ConfigValue]:
    """Typed settings for every broker: those of security, made from the user's, come first."""
    tuned = TEST_DEFAULTS if cluster.zookeeper is None else {**TEST_DEFAULTS, **REMOTE_DEFAULTS}
    synced = {_FLUSH_KEY: 1} if cluster.durability == POWER else {}
    return parse_broker_settings(
        {
            **(tuned if cluster.defaults == _FOR_TESTS else {}),
            **_sized(cluster.brokers),
            **synced,
            **cluster.config,
            **(secured or {}),
        }
    )


def placement_of(cluster: ClusterConfig) -> Placement:
    """Where the first broker's listeners are, in place of what the settings say."""
    return Placement(host=cluster.host, port=cluster.port, advertise=cluster.advertise)


def usable_placement(placement: Placement, problems: Problems, *, brokers: int = 1) -> Placement:
    """What a user has said about addresses, or nothing if it cannot be used."""
    host, port, advertise = placement.host, placement.port, placement.advertise
    most = MAX_PORT + 1 - brokers
    passed = [
        problems.check(lambda: require_int("port", port, least=0, most=most, refusal=ConfigError)),
        host is None or problems.check(lambda: require_text("host", host, refusal=ConfigError)),
        advertise is None or problems.check(lambda: _require_reachable(advertise)),
    ]
    return placement if all(passed) else AS_SET


def _require_reachable(advertise: str) -> None:
    text = require_text("advertise", advertise, refusal=ConfigError)
    if is_wildcard(text) or not re.fullmatch(_HOST, text):
        raise ConfigError(
            "advertise must be a name or an address of this machine, without a port, got "
            f"{shown(text)}"
        )


def require_topic_name(name: object, *, refusal: Refusal = InvalidArgument) -> str:
    """`name`, if a topic can have it."""
    text = require_text("a topic's name", name, refusal=refusal)
    fault = name_fault(text)
    if fault is not None:
        raise refusal(f"{shown(text)} cannot be a topic's name: {fault}")
    return text


def _require_room(config: Mapping[str, object], placement: Placement, *, brokers: int) -> None:
    """Refuses fixed ports that two brokers would both take as they count up."""
    as_text = {name: format_value(value) for name, value in config.items()}
    planned = plan_listeners(as_text, placement)
    fixed = sorted(one.port for one in planned.all if one.port)
    for port, following in itertools.pairwise(fixed):
        if following < port + brokers:
            raise ConfigError(
                f"listeners: the brokers' ports count up, so {brokers} brokers on ports "
                f"{port} and {following} would meet: use port 0, or leave more room"
            )
    if fixed and fixed[-1] + brokers - 1 > MAX_PORT:
        raise ConfigError(f"listeners: {brokers} brokers from port {fixed[-1]} on are too many")


def _require_topic(name: str, spec: object) -> None:
    require_topic_name(name, refusal=ConfigError)
    if not isinstance(spec, TopicSpec):
        require_int(f"topics[{name!r}]", spec, least=1, most=MAX_INT32, refusal=ConfigError)


def _usable_settings(config: object, example: str, problems: Problems) -> dict[str, object]:
    """The settings that have a name and something that may be a value."""
    if not problems.check(lambda: require_mapping("config", config, example, refusal=ConfigError)):
        return {}
    return {
        name: value
        for name, value in cast(Mapping[str, object], config).items()
        if problems.check(partial(_require_setting, name, value))
    }


def _require_setting(name: object, value: object) -> None:
    text = require_text("the name of a setting", name, refusal=ConfigError)
    require_setting_value(text, value)


def require_setting_value(name: str, value: object) -> None:
    """Refuses what is no value of any setting: `str` would make text of it, as of None."""
    if not isinstance(value, str | int | float | list | tuple | Path):
        raise ConfigError(f"{name} must be text, a number or a list, got {shown(value)}")
    if isinstance(value, str) and (fault := find_text_fault(value)):
        raise ConfigError(f"{name} {fault}, got {shown(value)}")


def warn_of_idle_settings(config: Mapping[str, object], *, decided: Mapping[str, str]) -> None:
    """Warns of the user's settings that have no effect; `decided` has reasons for some."""
    idle = idle_settings(config) | {
        name: decided[name]
        for name, value in config.items()
        if name in decided and not holds_here(name, value)
    }
    texts = [f"broker setting {name} has no effect: {reason}" for name, reason in idle.items()]
    texts += [
        f"broker setting {name}: {', '.join(others)} {'is' if len(others) == 1 else 'are'} left "
        f"out, only {', '.join(offered)} are offered"
        for name, (others, offered) in items_left_out(config).items()
    ]
    for text in texts:
        warnings.warn(text, ConfigWarning, stacklevel=_calls_within_package())


def _calls_within_package() -> int:
    """How many frames up the user's code is: the line that a warning should point at."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__")):
        level, frame = level + 1, frame.f_back
    return level


def _is_ours(module: str | None) -> bool:
    # Code that `runtime.values` generates has no module.
    return module is None or module.partition(".")[0] == _PACKAGE


def _sized(brokers: int) -> dict[str, object]:
    """Replicates internal topics as in production, as far as there are brokers."""
    replicas = min(3, brokers)
    return {
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": min(2, replicas),
    }
