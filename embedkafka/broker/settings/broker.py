"""One broker's settings: parsing, checks, and the values in force.

Not here: the keys (`broker_keys`), and values that change while the broker runs (`dynamic`).
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

from embedkafka.broker.settings.broker_keys import BROKER_KEYS, OFFERED_GROUPS, OFFERED_TLS
from embedkafka.broker.settings.definition import ConfigKey, ConfigValue, format_value
from embedkafka.broker.settings.ignored_keys import Inert
from embedkafka.broker.settings.listener_keys import (
    LISTENER_PREFIX,
    find_inert,
    find_listener_key,
    require_listener_key,
)
from embedkafka.broker.settings.listeners import (
    AS_SET,
    Placement,
    names_controllers_only,
    plan_listeners,
    speaks_sasl,
)
from embedkafka.broker.settings.topic_keys import TOPIC_KEYS
from embedkafka.runtime.failures import ConfigError
from embedkafka.runtime.problems import Problems

_MIN_DEDUPE_BYTES: Final = 1024 * 1024
_LOWEST_SPANS: Final = {"log.roll.ms": 1, "log.roll.jitter.ms": 0}
_IP_OVERRIDES: Final = "max.connections.per.ip.overrides"
_OFFERED: Final[Mapping[str, tuple[str, ...]]] = {
    "group.coordinator.rebalance.protocols": OFFERED_GROUPS,
    "ssl.enabled.protocols": OFFERED_TLS,
}


def find_broker_key(name: str) -> ConfigKey | None:
    """The key behind a broker setting, also of one for a single listener, or None."""
    return find_listener_key(name) if name.startswith(LISTENER_PREFIX) else BROKER_KEYS.get(name)


def require_broker_key(name: str) -> ConfigKey:
    """The key called `name`, or a ConfigError that names the nearest one."""
    key = BROKER_KEYS.get(name)
    if key is None:
        import difflib  # only a wrong name needs it

        near = difflib.get_close_matches(name, BROKER_KEYS, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ConfigError(f"unknown broker setting {name!r}{hint}")
    return key


def is_known_setting(name: str) -> bool:
    """Whether a broker takes a setting called `name`, with or without an effect."""
    return (
        name in BROKER_KEYS
        or find_inert(name) is not None
        or name in TOPIC_KEYS
        or (name.startswith(LISTENER_PREFIX) and find_listener_key(name) is not None)
    )


def idle_settings(settings: Mapping[str, object]) -> dict[str, str]:
    """The settings that have no effect, each with the reason."""
    idle: dict[str, str] = {}
    as_text = {name: format_value(value) for name, value in settings.items()}
    if names_controllers_only(as_text):
        idle["listeners"] = (
            "it names only those of KRaft's controllers. Brokers here are their own controllers, "
            "and serve clients on PLAINTEXT, at `port` or a free port"
        )
    for name, value in settings.items():
        inert = find_inert(name)
        if inert is not None:
            if not holds_here(name, value):
                idle[name] = inert.reason
        elif name not in BROKER_KEYS and name in TOPIC_KEYS:
            # Kafka ignores these too. Spark's own tests give their broker `delete.retention.ms`.
            idle[name] = "it is a topic setting, not a broker setting"
    return idle


def items_left_out(settings: Mapping[str, object]) -> dict[str, tuple[list[str], tuple[str, ...]]]:
    """What settings ask for that Kafka has and this broker has not, with what it has instead."""
    found: dict[str, tuple[list[str], tuple[str, ...]]] = {}
    for name, value in settings.items():
        key = find_broker_key(name)
        offered = _OFFERED.get(key.name) if key is not None else None
        if offered is not None:
            items = [each.strip() for each in format_value(value).split(",")]
            if others := [each for each in items if each and each not in offered]:
                found[name] = others, offered
    return found


def parse_broker_settings(
    settings: Mapping[str, object], placement: Placement = AS_SET
) -> dict[str, ConfigValue]:
    """Typed values of the broker keys in `settings`.

    Raises ConfigError for all unknown names, bad values, settings that must not be ignored and
    contradictions, also between `listeners` and the placement. Other settings without an effect are
    left out.
    """
    parsed: dict[str, ConfigValue] = {}
    problems = Problems()
    for name, value in settings.items():
        problems.check(partial(_parse_into, parsed, name, value))
    problems.check(lambda: plan_listeners(parsed, placement))
    for names, contradiction in _contradictions(BrokerConfig(parsed)):
        if not (settings.keys() - parsed.keys()).intersection(names):
            problems.add(contradiction)
    problems.raise_all()
    return parsed


def _parse_into(parsed: dict[str, ConfigValue], name: str, value: object) -> None:
    inert = find_inert(name)
    if inert is not None and inert.refused and not holds_here(name, value):
        raise ConfigError(f"broker setting {name} is not supported: {inert.reason}")
    if name.startswith(LISTENER_PREFIX):
        parsed[name.lower()] = require_listener_key(name).parse(value)
    elif name in BROKER_KEYS or not is_known_setting(name):
        parsed[name] = require_broker_key(name).parse(value)


def holds_here(name: str, value: object) -> bool:
    """Whether ignoring the setting gives `value` anyway, because it is the default."""
    key = BROKER_KEYS.get(name)
    return key is not None and key.parse(value) == key.default


def find_inert_in(config: "BrokerConfig", name: str) -> Inert | None:
    """Like `find_inert`; None also where the setting would do nothing on Apache Kafka either.

    Those are Kerberos's, on a broker without a listener that speaks SASL.
    """
    if name.startswith("sasl.kerberos.") and not speaks_sasl(config.given):
        return None
    return find_inert(name)


class BrokerConfig:
    """A value for every broker key: the given one or the default. Read-only."""

    __slots__ = ("given",)

    def __init__(self, given: Mapping[str, ConfigValue]) -> None:
        self.given = dict(given)

    def __getitem__(self, name: str) -> ConfigValue:
        if name in self.given:
            return self.given[name]
        return BROKER_KEYS[name].default

    def integer(self, name: str) -> int:
        value = self[name]
        assert isinstance(value, int), f"{name} is {value!r}"
        return value

    def number(self, name: str) -> float:
        value = self[name]
        assert isinstance(value, int | float), f"{name} is {value!r}"
        return float(value)

    def flag(self, name: str) -> bool:
        return bool(self[name])

    def text(self, name: str) -> str:
        value = self[name]
        return "" if value is None else str(value)

    def items(self, name: str) -> tuple[str, ...]:
        value = self[name]
        assert isinstance(value, tuple), f"{name} is {value!r}"
        return value

    def for_listener(self, listener: str) -> "BrokerConfig":
        """The settings in force on one listener; those of a mechanism have its name in front."""
        prefix = f"{LISTENER_PREFIX}{listener.lower()}."
        own = {
            name.removeprefix(prefix): value
            for name, value in self.given.items()
            if name.startswith(prefix)
        }
        return self.with_values(own) if own else self

    def with_values(self, changed: Mapping[str, ConfigValue]) -> "BrokerConfig":
        return BrokerConfig({**self.given, **changed})


def check_change(current: BrokerConfig, changed: Mapping[str, ConfigValue]) -> None:
    """Refuses changes that a running broker cannot make, in Kafka's words if it has any."""
    try:
        check_together(current.with_values(changed))
    except ConfigError as error:
        raise ConfigError(f"requirement failed: {error}") from None
    for name in ("num.io.threads", "num.network.threads", "log.cleaner.threads"):
        before, after = current.integer(name), changed.get(name)
        if isinstance(after, int) and after != before:
            _check_thread_count(name, before, after)
    for name in ("max.connections", "max.connection.creation.rate"):
        if changed.get(name) == 0:
            raise _invalid_change(f"Invalid {name} 0")


def _check_thread_count(name: str, before: int, after: int) -> None:
    if name == "num.io.threads" and not before * after:
        raise ConfigError(
            f"{name} cannot change from {before} to {after} while the broker runs: with 0, network "
            "threads handle requests themselves"
        )
    if before // 2 <= after <= before * 2:
        return
    grows = after > before
    if name == "log.cleaner.threads":
        limit = "increased to more than double" if grows else "reduced to less than half"
        raise _invalid_change(f"Log cleaner threads cannot be {limit} the current value {before}")
    limit = "not be greater than double" if grows else "be at least half"
    raise _invalid_change(
        f"Dynamic thread count update validation failed for {name}={after}, value should {limit} "
        f"the current value {before}"
    )


def _invalid_change(reason: str) -> ConfigError:
    return ConfigError(
        f"Invalid value org.apache.kafka.common.config.ConfigException: {reason} for configuration "
        "Invalid dynamic configuration"
    )


def check_together(config: BrokerConfig) -> None:
    """Refuses values that contradict each other, in Kafka's words: one contradiction at a time."""
    for _, contradiction in _contradictions(config):
        raise ConfigError(contradiction)


def _contradictions(config: BrokerConfig) -> Iterator[tuple[tuple[str, ...], str]]:
    """The settings that contradict each other, and how."""
    names: tuple[str, ...] = ("queued.max.request.bytes", "socket.request.max.bytes")
    queued, largest = map(config.integer, names)
    if 0 < queued < largest:
        yield names, f"{names[0]} must be larger or equal to {names[1]}"
    for name, low in _LOWEST_SPANS.items():
        value = config[name]
        if isinstance(value, int) and value < low:
            yield (name,), f"{name} must be greater than or equal to {low}"
    name = "log.retention.ms"
    if config[name] == 0:
        yield (name,), f"{name} must be unlimited (-1) or, greater than or equal to 1"
    name = "max.connections.per.ip"
    if not config.integer(name) and not config.text(_IP_OVERRIDES):
        yield (
            (name, _IP_OVERRIDES),
            f"{name} can be set to zero only if {_IP_OVERRIDES} property is set.",
        )
    names = ("connection.failed.authentication.delay.ms", "connections.max.idle.ms")
    delay_ms, idle_ms = map(config.integer, names)
    if 0 <= idle_ms <= delay_ms:
        yield (
            names,
            f"{names[0]}={delay_ms} should always be less than {names[1]}={idle_ms} to prevent "
            "failed authentication responses from timing out",
        )
    names = ("log.cleaner.threads", "log.cleaner.dedupe.buffer.size")
    threads, buffer_bytes = map(config.integer, names)
    if config.flag("log.cleaner.enable") and buffer_bytes <= threads * _MIN_DEDUPE_BYTES:
        yield names, f"{names[1]} must be at least 1MB per cleaner thread."
