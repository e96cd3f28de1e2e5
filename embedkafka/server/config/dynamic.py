"""Settings that change while the cluster runs: reads them from the store and notifies listeners.

Owner: `_lock` (leaf) guards the cached values; the background thread applies changes.
Invariants: a watch on `/config/changes` is set whenever there is a session. The broker reads every
notification at least once; those made while the store was unreachable, when it returns. Old
notifications are purged, all but the newest. A broker that was away sees a gap in their numbers
and reads every setting again.
Not here: the keys (`broker_keys`, `topic_keys`, `group`), and the requests (`handlers.configs`).
"""

import logging
from collections.abc import Callable, Mapping

from embedkafka.log.config import LogConfig
from embedkafka.runtime.failures import ConfigError
from embedkafka.runtime.locks import LEAF_RANK, ranked_lock
from embedkafka.runtime.scheduler import Scheduler
from embedkafka.server.config.broker import BrokerConfig
from embedkafka.server.config.broker_keys import BROKER_KEYS
from embedkafka.server.config.definition import ConfigValue
from embedkafka.server.config.group import parse_group_settings
from embedkafka.server.config.topic import effective_topic_config
from embedkafka.server.config.topic_keys import TOPIC_KEYS
from embedkafka.zk import paths
from embedkafka.zk.kafka_zk import KafkaZk
from embedkafka.zk.payloads import DEFAULT_ENTITY, decode_config_change, desanitize
from embedkafka.zk.store import ConnectionLoss, NoNode, SessionExpired, SessionState, WatchEvent

_LOG = logging.getLogger(__name__)

BROKERS, TOPICS, GROUPS = "brokers", "topics", "groups"


class DynamicConfig:
    """The settings in force on one broker, for itself, its topics and its groups."""

    def __init__(
        self, broker_id: int, static: BrokerConfig, zk: KafkaZk, background: Scheduler
    ) -> None:
        self.static = static
        self.broker_id = broker_id
        self._zk = zk
        self._background = background
        self._lock = ranked_lock("dynamic settings", LEAF_RANK)
        self._effective = static
        self._log_configs: dict[str, LogConfig] = {}
        self._groups: dict[str, dict[str, int]] = {}
        self._last_change = -1
        self._topic_listener: Callable[[str, LogConfig], None] = lambda topic, config: None
        self._broker_listener: Callable[[BrokerConfig], None] = lambda config: None

    def state_facts(self, facts: Mapping[str, ConfigValue]) -> None:
        """Adds static settings that only a running broker knows; before `start`."""
        self.static = self._effective = self.static.with_values(facts)

    def start(
        self,
        on_topic: Callable[[str, LogConfig], None],
        on_broker: Callable[[BrokerConfig], None],
    ) -> None:
        """Reads the settings and follows their changes; listeners run on the background thread."""
        self._topic_listener, self._broker_listener = on_topic, on_broker
        self._zk.store.on_session_change(self._on_session_change)
        changes = self._zk.store.children(paths.CONFIG_CHANGES, self._on_change)
        self._last_change = max(map(_number, changes), default=-1)
        self._reload_broker()
        for group in self._zk.configured_entities(GROUPS):
            self._reload_group(group)

    @property
    def broker(self) -> BrokerConfig:
        """The settings in force: this broker's dynamic ones, the cluster's, static ones."""
        return self._effective

    def overrides(self, entity_type: str, name: str) -> dict[str, str]:
        """The overrides of one entity as text, read from the store and thus never stale."""
        return self._zk.config(entity_type, name)

    def set_overrides(self, entity_type: str, name: str, overrides: Mapping[str, str]) -> None:
        """Stores an entity's overrides and applies them here; other brokers get a notification."""
        self._zk.set_config(entity_type, name, overrides)
        self._apply(entity_type, name)

    def find_group_value(self, group_id: str, name: str) -> int | None:
        """A group's own value; None when the broker's setting applies."""
        return self._groups.get(group_id, {}).get(name)

    def configured_groups(self) -> list[str]:
        """Groups that override a setting."""
        return sorted(group_id for group_id, own in list(self._groups.items()) if own)

    def topic_values(self, topic: str) -> dict[str, ConfigValue]:
        """The effective value of every topic key for `topic`."""
        return effective_topic_config(_parsed(TOPICS, self.overrides(TOPICS, topic)), self.broker)

    def log_config(self, topic: str) -> LogConfig:
        """The log configuration of `topic`, cached until it changes."""
        with self._lock:
            known = self._log_configs.get(topic)
        if known is not None:
            return known
        config = LogConfig.of(self.topic_values(topic))
        with self._lock:
            return self._log_configs.setdefault(topic, config)

    def forget_topic(self, topic: str) -> None:
        """Drops the cached settings of a deleted topic, which may come back with others."""
        with self._lock:
            self._log_configs.pop(topic, None)

    def _on_change(self, event: WatchEvent) -> None:
        self._background.once("config-change", 0, self._read_changes)

    def _on_session_change(self, state: SessionState) -> None:
        if state is SessionState.CONNECTED:
            self._background.once("config-change", 0, self._read_changes)

    def _read_changes(self) -> None:
        try:
            names = sorted(self._zk.store.children(paths.CONFIG_CHANGES, self._on_change))
            new = [name for name in names if _number(name) > self._last_change]
            missed = bool(new) and _number(new[0]) > self._last_change + 1
            for name in new:
                missed |= not self._read_change(name)
                self._last_change = _number(name)
            if missed:
                self._reload_all()
            self._zk.purge_config_changes(names[:-1])
        except (ConnectionLoss, SessionExpired) as error:
            _LOG.info(
                "broker %d reads changed settings when ZooKeeper is back: %r",
                self.broker_id,
                error,
            )

    def _read_change(self, name: str) -> bool:
        """Applies one notification; False if it has been purged."""
        try:
            data, _ = self._zk.store.get(f"{paths.CONFIG_CHANGES}/{name}")
        except NoNode:
            return False
        entity_type, _, entity = decode_config_change(data).partition("/")
        self._apply(entity_type, entity)
        return True

    def _reload_all(self) -> None:
        """Reads every setting again, because the notification of some change was lost."""
        self._reload_broker()
        for group in self._zk.configured_entities(GROUPS):
            self._reload_group(group)
        for topic in list(self._log_configs):
            self._apply(TOPICS, topic)

    def _apply(self, entity_type: str, name: str) -> None:
        if entity_type == TOPICS:
            self.forget_topic(name)
            self._topic_listener(name, self.log_config(name))
        elif entity_type == BROKERS and name in (DEFAULT_ENTITY, str(self.broker_id)):
            self._reload_broker()
        elif entity_type == GROUPS:
            self._reload_group(name)

    def _reload_group(self, entity: str) -> None:
        group_id, own = desanitize(entity), self.overrides(GROUPS, entity)
        try:
            self._groups[group_id] = parse_group_settings(own, self.broker)
        except ConfigError as error:
            _LOG.warning("ignoring the settings of group %s: %s", group_id, error)
            self._groups.pop(group_id, None)

    def _reload_broker(self) -> None:
        changed = {
            **_parsed(BROKERS, self.overrides(BROKERS, DEFAULT_ENTITY)),
            **_parsed(BROKERS, self.overrides(BROKERS, str(self.broker_id))),
        }
        if not changed and self._effective is self.static:
            return
        with self._lock:
            self._effective = self.static.with_values(changed)
            topics = list(self._log_configs)
            self._log_configs.clear()
        self._broker_listener(self._effective)
        for topic in topics:
            self._topic_listener(topic, self.log_config(topic))


def _number(notification: str) -> int:
    return int(notification.removeprefix(paths.CONFIG_CHANGE_PREFIX))


def _parsed(entity_type: str, overrides: Mapping[str, str]) -> dict[str, ConfigValue]:
    """Typed values; skips unknown keys, and logs values that do not parse."""
    keys = TOPIC_KEYS if entity_type == TOPICS else BROKER_KEYS
    parsed: dict[str, ConfigValue] = {}
    for name, text in overrides.items():
        key = keys.get(name)
        try:
            if key is not None:
                parsed[name] = key.parse(text)
        except ConfigError as error:
            _LOG.warning("ignoring a stored setting: %s", error)
    return parsed
