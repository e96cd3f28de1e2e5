"""Settings that change while the cluster runs: reads them from the store and notifies listeners.

Owner: `_lock` (leaf) guards the cached values; the background thread applies changes.
Invariants: the broker reads every notification of a change (`zk.change_feed`), or every setting
again if it missed one.
Not here: the keys (`broker_keys`, `topic_keys`, `group`), and the requests (`apis.configs`).
"""

import logging
from collections.abc import Callable, Mapping

from embedkafka.broker.log.config import LogConfig
from embedkafka.broker.settings.broker import BrokerConfig, find_broker_key
from embedkafka.broker.settings.client_metrics import CLIENT_METRICS
from embedkafka.broker.settings.definition import ConfigValue
from embedkafka.broker.settings.group import parse_group_settings
from embedkafka.broker.settings.topic import effective_topic_config
from embedkafka.broker.settings.topic_keys import TOPIC_KEYS
from embedkafka.runtime.failures import ConfigError
from embedkafka.runtime.locks import LEAF_RANK, ranked_lock
from embedkafka.runtime.scheduler import Scheduler
from embedkafka.zk import paths
from embedkafka.zk.kafka_zk import KafkaZk
from embedkafka.zk.payloads import DEFAULT_ENTITY, decode_config_change, desanitize

_LOG = logging.getLogger(__name__)

BROKERS, TOPICS, GROUPS = "brokers", "topics", "groups"
OF_QUOTAS = ("users", "clients", "ips")


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
        self._topic_listener: Callable[[str, LogConfig], None] = lambda topic, config: None
        self._broker_listener: Callable[[BrokerConfig], None] = lambda config: None
        self._quota_listener: Callable[[], None] = lambda: None

    def state_facts(self, facts: Mapping[str, ConfigValue]) -> None:
        """Adds static settings that only a running broker knows; before `start`."""
        self.static = self._effective = self.static.with_values(facts)

    def start(
        self,
        on_topic: Callable[[str, LogConfig], None],
        on_broker: Callable[[BrokerConfig], None],
        on_quotas: Callable[[], None] = lambda: None,
    ) -> None:
        """Reads the settings and follows their changes; listeners run on the background thread."""
        self._topic_listener, self._broker_listener = on_topic, on_broker
        self._quota_listener = on_quotas
        self._zk.follow_changes(
            paths.CONFIG_CHANGES,
            paths.CONFIG_CHANGE_PREFIX,
            self._background,
            on_change=self._read_change,
            on_gap=self._reload_all,
        )
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

    def configured_client_metrics(self) -> list[str]:
        """Subscriptions to clients' metrics that set anything."""
        names = self._zk.configured_entities(CLIENT_METRICS)
        return sorted(
            desanitize(name) for name, own in self._zk.configs(CLIENT_METRICS, names).items() if own
        )

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

    def _read_change(self, data: bytes) -> None:
        entity_type, _, entity = decode_config_change(data).partition("/")
        self._apply(entity_type, entity)

    def _reload_all(self) -> None:
        """Reads every setting again, because the notification of some change was lost."""
        self._reload_broker()
        for group in self._zk.configured_entities(GROUPS):
            self._reload_group(group)
        for topic in list(self._log_configs):
            self._apply(TOPICS, topic)
        self._quota_listener()

    def _apply(self, entity_type: str, name: str) -> None:
        if entity_type == TOPICS:
            self.forget_topic(name)
            self._topic_listener(name, self.log_config(name))
        elif entity_type == BROKERS and name in (DEFAULT_ENTITY, str(self.broker_id)):
            self._reload_broker()
        elif entity_type == GROUPS:
            self._reload_group(name)
        elif entity_type in OF_QUOTAS:
            self._quota_listener()

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


def _parsed(entity_type: str, overrides: Mapping[str, str]) -> dict[str, ConfigValue]:
    """Typed values; skips unknown keys, and logs values that do not parse."""
    find = TOPIC_KEYS.get if entity_type == TOPICS else find_broker_key
    parsed: dict[str, ConfigValue] = {}
    for name, text in overrides.items():
        key = find(name)
        try:
            if key is not None:
                parsed[name] = key.parse(text)
        except ConfigError as error:
            _LOG.warning("ignoring a stored setting: %s", error)
    return parsed
