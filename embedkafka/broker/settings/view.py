"""Settings as DescribeConfigs shows them: value, source, synonyms and documentation.

Synonyms run from the strongest to the weakest: the topic's own value, this broker's, the cluster's,
the static one, Kafka's default. The strongest is the value's source.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Final

from embedkafka.broker.settings.broker import BrokerConfig, find_broker_key, find_inert_in
from embedkafka.broker.settings.broker_keys import BROKER_KEYS
from embedkafka.broker.settings.client_metrics import CLIENT_METRICS_KEYS
from embedkafka.broker.settings.definition import (
    READ_ONLY,
    ConfigKey,
    ConfigType,
    ConfigValue,
    format_value,
)
from embedkafka.broker.settings.dynamic import BROKERS, DynamicConfig
from embedkafka.broker.settings.group import GROUP_KEYS, broker_key
from embedkafka.broker.settings.ignored_keys import INERT_TOPIC, UNLISTED_DOCS
from embedkafka.broker.settings.listener_keys import find_inert
from embedkafka.broker.settings.topic import broker_default
from embedkafka.broker.settings.topic_keys import HIDDEN, SYNONYMS, TOPIC_KEYS
from embedkafka.runtime.values import dataclass
from embedkafka.zk.payloads import DEFAULT_ENTITY

_INTERNAL: Final = "internal."
"""Begins the names of settings that Kafka's brokers do not have, and so do not show."""


class ConfigSource(IntEnum):
    """Where a value comes from, numbered as on the wire."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Synonym:
    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """One setting in a DescribeConfigs or CreateTopics answer."""

    name: str
    value: str | None
    type: ConfigType
    source: ConfigSource
    read_only: bool
    is_sensitive: bool
    synonyms: Sequence[Synonym]


def documentation(name: str) -> str | None:
    """A sentence about a key of any resource; None for a name that Kafka does not know.

    For a key without an effect, there is another sentence, the reason.
    """
    supplied = (topic for topic, keys in SYNONYMS.items() if name in (key.name for key in keys))
    of_topic = TOPIC_KEYS.get(next(supplied, name))
    key = of_topic or BROKER_KEYS.get(name) or GROUP_KEYS.get(name) or CLIENT_METRICS_KEYS.get(name)
    what = key.doc if key else UNLISTED_DOCS.get(name, "")
    inert = INERT_TOPIC.get(name) if name in TOPIC_KEYS else find_inert(name)
    return f"{what} Has no effect: {inert.reason}.".lstrip() if inert else what or None


def topic_entries(own: Mapping[str, str], config: DynamicConfig) -> Iterator[ConfigEntry]:
    """Every topic setting of a topic that has set `own`."""
    layers = _broker_layers(config)
    for name, key in TOPIC_KEYS.items():
        if name in HIDDEN and name not in own:
            continue
        fallbacks = [synonym.name for synonym in SYNONYMS.get(name, ())]
        synonyms = _synonyms(fallbacks, layers)
        if name in own:
            value = _shown(key, key.parse(own[name]))
            mine = Synonym(name=name, value=value, source=ConfigSource.TOPIC)
            synonyms = [mine, *synonyms]
        else:
            value = _shown(key, broker_default(name, config.broker))
        yield _entry(key, value, synonyms, read_only=False)


def group_entries(own: Mapping[str, str], config: DynamicConfig) -> Iterator[ConfigEntry]:
    """Every setting of a group that has set `own`."""
    layers = _broker_layers(config)
    for name, key in GROUP_KEYS.items():
        fallback = broker_key(name)
        synonyms = _synonyms([fallback], layers)
        value: str | None = _shown(key, config.broker[fallback])
        if name in own:
            value = own[name]
            synonyms = [Synonym(name=name, value=value, source=ConfigSource.GROUP), *synonyms]
        yield _entry(key, value, synonyms, read_only=False)


def client_metrics_entries(own: Mapping[str, str]) -> Iterator[ConfigEntry]:
    """Every setting of a subscription to clients' metrics that has set `own`."""
    for name, key in CLIENT_METRICS_KEYS.items():
        synonyms: Sequence[Synonym] = ()
        value = _shown(key, key.default)
        if name in own:
            value = own[name]
            synonyms = [Synonym(name=name, value=value, source=ConfigSource.CLIENT_METRICS)]
        yield _entry(key, value, synonyms, read_only=False)


def broker_entries(config: DynamicConfig) -> Iterator[ConfigEntry]:
    """Every setting of this broker, those of its listeners, and those given at run time."""
    layers = _broker_layers(config)
    given = {name for _, own in layers[:3] for name in own}
    for name in given - BROKER_KEYS.keys():
        yield _given_entry(name, layers)
    for name, key in BROKER_KEYS.items():
        if name in _OF_PLUGINS:
            if name in given:
                yield _given_entry(name, layers)
            continue
        if name.startswith(_INTERNAL) or (name in _RUN_TIME and name not in given):
            continue
        yield _entry(
            key,
            _shown(key, config.broker[name]),
            _synonyms(_family(name), layers),
            read_only=key.update is READ_ONLY or find_inert_in(config.broker, name) is not None,
        )


def cluster_entries(config: DynamicConfig) -> Iterator[ConfigEntry]:
    """Only the settings that were set at run time for all brokers."""
    layer = _dynamic_layer(ConfigSource.DYNAMIC_DEFAULT_BROKER, config, DEFAULT_ENTITY)
    for name in layer[1]:
        key = BROKER_KEYS.get(name)
        if key is None or name in _OF_PLUGINS:
            yield _given_entry(name, [layer])
        else:
            yield _entry(key, layer[1][name], _synonyms([name], [layer]), read_only=False)


def _given_entry(name: str, layers: Sequence["_Layer"]) -> ConfigEntry:
    """A setting for one listener, or one that Kafka does not know, which may be a secret."""
    key = None if name in _OF_PLUGINS else find_broker_key(name)
    synonyms = _synonyms([name] if key is None else [name, key.name], layers)
    return ConfigEntry(
        name=name,
        value=synonyms[0].value,
        type=ConfigType.UNKNOWN if key is None else key.type,
        source=synonyms[0].source,
        read_only=True,
        is_sensitive=key is None or key.type is ConfigType.PASSWORD,
        synonyms=synonyms,
    )


_Layer = tuple[ConfigSource, Mapping[str, str | None]]


def _broker_layers(config: DynamicConfig) -> list[_Layer]:
    return [
        _dynamic_layer(ConfigSource.DYNAMIC_BROKER, config, str(config.broker_id)),
        _dynamic_layer(ConfigSource.DYNAMIC_DEFAULT_BROKER, config, DEFAULT_ENTITY),
        (ConfigSource.STATIC_BROKER, _shown_all(config.static)),
        (ConfigSource.DEFAULT, _DEFAULTS),
    ]


def _dynamic_layer(source: ConfigSource, config: DynamicConfig, entity: str) -> _Layer:
    own = config.overrides(BROKERS, entity)
    return source, {name: None if _is_secret(name) else text for name, text in own.items()}


def _is_secret(name: str) -> bool:
    """As in Kafka, what it does not know may be a secret."""
    key = None if name in _OF_PLUGINS else find_broker_key(name)
    return key is None or key.type is ConfigType.PASSWORD


def _shown_all(static: BrokerConfig) -> dict[str, str | None]:
    found = ((name, find_broker_key(name), value) for name, value in static.given.items())
    return {
        name: None if _is_secret(name) else _shown(key, value)
        for name, key, value in found
        if key is not None
    }


def _shown(key: ConfigKey, value: ConfigValue) -> str | None:
    if value is None or key.type is ConfigType.PASSWORD:
        return None
    return format_value(value)


_RUN_TIME = frozenset(
    {
        "follower.replication.throttled.rate",
        "leader.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    }
)
"""Keys that Kafka knows only once they are set, and then without a default."""

_OF_PLUGINS = frozenset({"allow.everyone.if.no.acl.found", "super.users"})
"""Keys that only the authorizer knows: Kafka shows that they are set, and hides how."""

_DEFAULTS: Mapping[str, str | None] = {
    name: _shown(key, key.default)
    for name, key in BROKER_KEYS.items()
    if key.default is not None and name not in _RUN_TIME | _OF_PLUGINS and name != "node.id"
}

_LISTS = frozenset({"advertised.listeners", "listeners", "log.dir", "log.dirs"})
"""Lists to Kafka, whose parts this broker parses from the text."""

_FAMILIES: Mapping[str, Sequence[str]] = {
    synonyms[0].name: [synonym.name for synonym in synonyms] for synonyms in SYNONYMS.values()
}


def _family(name: str) -> Sequence[str]:
    """A broker key and its coarser fallbacks, such as hours for milliseconds."""
    return _FAMILIES.get(name, (name,))


def _synonyms(names: Sequence[str], layers: Iterable[_Layer]) -> list[Synonym]:
    found = [
        Synonym(name=name, value=values[name], source=source)
        for source, values in layers
        for name in names
        if name in values
    ]
    # Kafka hides the synonyms before the first one with the leading name.
    for position, synonym in enumerate(found):
        if synonym.name == names[0]:
            return found[position:]
    return []


def _entry(
    key: ConfigKey, value: str | None, synonyms: Sequence[Synonym], *, read_only: bool
) -> ConfigEntry:
    return ConfigEntry(
        name=key.name,
        value=value,
        type=ConfigType.LIST if key.name in _LISTS else key.type,
        source=synonyms[0].source if synonyms else ConfigSource.DEFAULT,
        read_only=read_only,
        is_sensitive=key.type is ConfigType.PASSWORD,
        synonyms=synonyms,
    )
