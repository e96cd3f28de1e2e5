"""Settings, quotas, SCRAM credentials."""

from collections.abc import Mapping, Sequence
from typing import Final

from embedkafka.wire.protocol.api_keys import ApiKey
from tests.wire.plain_messages import Plain
from tests.wire.recorded.raw_calls.table import LONG, MISSING, NO_GROUP, TOPIC, Call, call

UNKNOWN_TYPE, ANY, TOPICS, GROUPS, BROKERS, LOGGERS, METRICS = 0, 1, 2, 32, 4, 8, 16
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


def _describe(*resources: Plain, synonyms: bool = False, docs: bool = False) -> Call:
    versions = range(3, 5) if docs else None
    more = {"include_documentation": True} if docs else {}
    return call(
        ApiKey.DESCRIBE_CONFIGS,
        versions,
        resources=list(resources),
        include_synonyms=synonyms,
        **more,
    )


def _resource(kind: int, name: str, *keys: str) -> Plain:
    return {
        "resource_type": kind,
        "resource_name": name,
        "configuration_keys": list(keys) or None,
    }


DESCRIBE: Final[Mapping[str, Call]] = {
    "configs: topic": _describe(_resource(TOPICS, TOPIC, "retention.ms", "segment.ms")),
    "configs: synonyms": _describe(
        _resource(TOPICS, TOPIC, "retention.ms", "flush.ms", "compression.type"), synonyms=True
    ),
    "configs: unknown keys": _describe(_resource(TOPICS, TOPIC, "made.up", "", "retention.ms")),
    "configs: no keys": _describe(
        {"resource_type": METRICS, "resource_name": MISSING, "configuration_keys": []}
    ),
    "configs: key twice": _describe(_resource(TOPICS, TOPIC, "flush.ms", "flush.ms")),
    "configs: resource twice": _describe(
        _resource(TOPICS, TOPIC, "flush.ms"), _resource(TOPICS, TOPIC, "segment.ms")
    ),
    "configs: missing topic": _describe(_resource(TOPICS, MISSING)),
    "configs: bad topics": _describe(
        _resource(TOPICS, ""), _resource(TOPICS, "a b"), _resource(TOPICS, LONG)
    ),
    "configs: brokers": _describe(
        _resource(BROKERS, "1", "log.retention.ms", "log.retention.hours"),
        _resource(BROKERS, "2", "log.retention.ms"),
        _resource(BROKERS, "-1"),
        _resource(BROKERS, "one"),
        _resource(BROKERS, "99999999999"),
        synonyms=True,
    ),
    "configs: all brokers": _describe(_resource(BROKERS, "", "log.retention.ms")),
    "configs: loggers": _describe(
        _resource(LOGGERS, "2"), _resource(LOGGERS, ""), _resource(LOGGERS, "one")
    ),
    "configs: nameless": _describe(_resource(GROUPS, ""), _resource(METRICS, "")),
    "configs: missing metrics": _describe(_resource(METRICS, MISSING)),
    "configs: missing group": _describe(_resource(GROUPS, NO_GROUP, "consumer.session.timeout.ms")),
    "configs: unknown types": _describe(
        _resource(UNKNOWN_TYPE, "x"), _resource(ANY, "x"), _resource(64, "x"), _resource(-1, "x")
    ),
    "configs: known and unknown types": _describe(
        _resource(TOPICS, TOPIC, "retention.ms"), _resource(64, "x")
    ),
    "configs: nothing": _describe(),
}


def _change(
    *resources: Plain, api: ApiKey = ApiKey.INCREMENTAL_ALTER_CONFIGS, validate_only: bool = True
) -> Call:
    return call(api, resources=list(resources), validate_only=validate_only)


def _changes(kind: int, name: str, *changes: tuple[str, int, str | None]) -> Plain:
    return {
        "resource_type": kind,
        "resource_name": name,
        "configs": [
            {"name": key, "config_operation": operation, "value": value}
            for key, operation, value in changes
        ],
    }


CHANGE: Final[Mapping[str, Call]] = {
    "change: topic": _change(_changes(TOPICS, TOPIC, ("retention.ms", SET, "5"))),
    "change: nothing": _change(),
    "change: no changes": _change(_changes(TOPICS, TOPIC)),
    "change: null": _change(_changes(TOPICS, TOPIC, ("retention.ms", SET, None))),
    "change: two nulls": _change(
        _changes(TOPICS, TOPIC, ("retention.ms", SET, None), ("flush.ms", APPEND, None))
    ),
    "change: empty": _change(_changes(TOPICS, TOPIC, ("retention.ms", SET, ""))),
    "change: nameless": _change(_changes(TOPICS, TOPIC, ("", SET, "1"))),
    "change: long value": _change(_changes(TOPICS, TOPIC, ("retention.ms", SET, "1" * 3_000))),
    "change: long unknown": _change(_changes(TOPICS, TOPIC, ("x" * 3_000, SET, "1"))),
    "change: twice": _change(
        _changes(TOPICS, TOPIC, ("retention.ms", SET, "1"), ("retention.ms", DELETE, None))
    ),
    "change: resource twice": _change(
        _changes(TOPICS, TOPIC, ("retention.ms", SET, "1")),
        _changes(TOPICS, TOPIC, ("flush.ms", SET, "1")),
    ),
    "change: operation 9": _change(_changes(TOPICS, TOPIC, ("retention.ms", 9, "1"))),
    "change: operation -1": _change(_changes(TOPICS, TOPIC, ("retention.ms", -1, "1"))),
    "change: append to a number": _change(_changes(TOPICS, TOPIC, ("retention.ms", APPEND, "1"))),
    "change: append to unknown": _change(_changes(TOPICS, TOPIC, ("made.up", APPEND, "1"))),
    "change: append": _change(_changes(TOPICS, TOPIC, ("cleanup.policy", APPEND, "compact"))),
    "change: append bad": _change(_changes(TOPICS, TOPIC, ("cleanup.policy", APPEND, "burn"))),
    "change: append nothing": _change(_changes(TOPICS, TOPIC, ("cleanup.policy", APPEND, ""))),
    "change: append to a bad topic": _change(_changes(TOPICS, "a b", ("flush.ms", APPEND, "1"))),
    "change: append to metrics": _change(_changes(METRICS, "raw-x", ("metrics", APPEND, "x"))),
    "change: append known": _change(_changes(TOPICS, TOPIC, ("cleanup.policy", APPEND, "delete"))),
    "change: subtract": _change(_changes(TOPICS, TOPIC, ("cleanup.policy", SUBTRACT, "delete"))),
    "change: subtract unknown": _change(
        _changes(TOPICS, TOPIC, ("cleanup.policy", SUBTRACT, "compact"))
    ),
    "change: delete unset": _change(_changes(TOPICS, TOPIC, ("retention.ms", DELETE, None))),
    "change: delete with a value": _change(_changes(TOPICS, TOPIC, ("flush.ms", DELETE, "5"))),
    "change: delete unknown": _change(_changes(TOPICS, TOPIC, ("made.up", DELETE, None))),
    "change: several": _change(
        _changes(TOPICS, TOPIC, ("retention.ms", SET, "5")),
        _changes(TOPICS, MISSING, ("retention.ms", SET, "5")),
        _changes(TOPICS, "a b", ("retention.ms", SET, "5")),
        _changes(TOPICS, "", ("retention.ms", SET, "5")),
        _changes(GROUPS, NO_GROUP, ("consumer.session.timeout.ms", SET, "soon")),
        _changes(METRICS, MISSING, ("interval.ms", SET, "1")),
    ),
    "change: bad with good": _change(
        _changes(TOPICS, TOPIC, ("retention.ms", SET, "5"), ("flush.ms", SET, "soon"))
    ),
    "change: unknown setting of a missing topic": _change(
        _changes(TOPICS, MISSING, ("made.up", SET, "1")), _changes(TOPICS, "a b", ("x", SET, "1"))
    ),
    "change: nameless group": _change(
        _changes(GROUPS, "", ("consumer.session.timeout.ms", SET, "50000"))
    ),
    "change: nameless metrics": _change(_changes(METRICS, "", ("interval.ms", SET, "5000"))),
    "change: unknown types": _change(
        _changes(0, "x", ("a", SET, "b")),
        _changes(1, "x", ("a", SET, "b")),
        _changes(64, "x", ("a", SET, "b")),
        _changes(-1, "x", ("a", SET, "b")),
    ),
    "change: brokers": _change(
        _changes(BROKERS, "1", ("log.retention.ms", SET, "50000")),
        _changes(BROKERS, "", ("log.retention.ms", SET, "50000")),
    ),
    "change: append to a broker": _change(
        _changes(BROKERS, "1", ("log.retention.ms", APPEND, "1"))
    ),
    "change: operation 9 of a broker": _change(
        _changes(BROKERS, "1", ("log.retention.ms", 9, "1"))
    ),
    "change: bad brokers": _change(
        _changes(BROKERS, "2", ("log.retention.ms", SET, "5")),
        _changes(BROKERS, "one", ("log.retention.ms", SET, "5")),
        _changes(BROKERS, "-1", ("log.retention.ms", SET, "5")),
    ),
    **{
        f"change: broker {name!r} {key}={value}": _change(
            _changes(BROKERS, name, (key, SET, value))
        )
        for name in ("1", "")
        for key, value in (
            ("made.up", "1"),
            ("log.retention.ms", "soon"),
            ("log.retention.ms", "-2"),
            ("log.retention.ms", "0"),
            ("log.roll.ms", "0"),
            ("log.roll.jitter.ms", "-1"),
            ("num.io.threads", "0"),
            ("max.connections.per.ip", "0"),
            ("log.cleaner.dedupe.buffer.size", "10"),
            ("compression.gzip.level", "0"),
            ("leader.replication.throttled.rate", "100"),
            ("log.retention.hours", "5"),
            ("broker.id", "5"),
            ("node.id", "5"),
            ("num.partitions", "5"),
            ("log.cleaner.threads", "0"),
            ("log.cleaner.threads", "9"),
            ("log.cleaner.io.max.bytes.per.second", "-1"),
            ("message.max.bytes", "-1"),
            ("max.connections", "-1"),
            ("max.connections.per.ip.overrides", "1.2.3.4:x"),
            ("max.connections.per.ip.overrides", "localhost:5"),
            ("max.connection.creation.rate", "0"),
            ("num.replica.fetchers", "0"),
            ("num.recovery.threads.per.data.dir", "9"),
            ("log.segment.bytes", "1"),
            ("log.cleanup.policy", "burn"),
            ("log.cleanup.policy", "compact,burn"),
            ("compression.type", "rar"),
            ("unclean.leader.election.enable", "maybe"),
            ("min.insync.replicas", "0"),
            ("listeners", "PLAINTEXT://:0"),
            ("advertised.listeners", "x"),
            ("ssl.keystore.location", "/none"),
            ("listener.name.plaintext.ssl.keystore.location", "/none"),
            ("follower.replication.throttled.rate", "-1"),
            ("transaction.partition.verification.enable", "maybe"),
            ("producer.id.expiration.ms", "0"),
            ("group.consumer.session.timeout.ms", "50000"),
            ("principal.builder.class", "x"),
            ("authorizer.class.name", "x"),
            ("log.message.timestamp.type", "Later"),
            ("remote.log.manager.copy.max.bytes.per.second", "0"),
        )
    },
    **{
        f"change: {kind} {key}={value}": _change(_changes(number, "raw-x", (key, SET, value)))
        for kind, number, key, value in (
            ("group", GROUPS, "consumer.session.timeout.ms", "1"),
            ("group", GROUPS, "consumer.session.timeout.ms", "99999999"),
            ("group", GROUPS, "consumer.heartbeat.interval.ms", "1"),
            ("group", GROUPS, "consumer.heartbeat.interval.ms", "99999999"),
            ("group", GROUPS, "consumer.heartbeat.interval.ms", "14000"),
            ("group", GROUPS, "made.up", "1"),
            ("metrics", METRICS, "interval.ms", "99"),
            ("metrics", METRICS, "interval.ms", "3600001"),
            ("metrics", METRICS, "interval.ms", "soon"),
            ("metrics", METRICS, "interval.ms", ""),
            ("metrics", METRICS, "metrics", ""),
            ("metrics", METRICS, "metrics", "*"),
            ("metrics", METRICS, "match", "client_id=a,client_id=b"),
            ("metrics", METRICS, "match", "client_id"),
            ("metrics", METRICS, "match", "made_up=a"),
            ("metrics", METRICS, "match", "client_id=["),
            ("metrics", METRICS, "match", "client_id=a.*, client_software_name=b"),
            ("metrics", METRICS, "match", ""),
            ("metrics", METRICS, "made.up", "1"),
        )
    },
    "change: loggers": _change(
        _changes(LOGGERS, "1", ("made.up", SET, "INFO")),
        _changes(LOGGERS, "2", ("root", SET, "INFO")),
    ),
    "change: logger levels": _change(_changes(LOGGERS, "1", ("root", SET, "LOUD"))),
    "change: logger null": _change(_changes(LOGGERS, "1", ("root", SET, None))),
    "change: logger appended": _change(_changes(LOGGERS, "1", ("root", APPEND, "INFO"))),
    "change: logger deleted": _change(_changes(LOGGERS, "1", ("root", DELETE, None))),
    "change: nameless loggers": _change(_changes(LOGGERS, "", ("root", SET, "INFO"))),
}


def _set_all(*resources: Plain) -> Call:
    return _change(*resources, api=ApiKey.ALTER_CONFIGS)


def _values(kind: int, name: str, *values: tuple[str, str | None]) -> Plain:
    return {
        "resource_type": kind,
        "resource_name": name,
        "configs": [{"name": key, "value": value} for key, value in values],
    }


SET_ALL: Final[Mapping[str, Call]] = {
    "set all: topic": _set_all(_values(TOPICS, TOPIC, ("retention.ms", "5"))),
    "set all: nothing": _set_all(),
    "set all: no values": _set_all(_values(TOPICS, TOPIC)),
    "set all: null": _set_all(_values(TOPICS, TOPIC, ("retention.ms", None))),
    "set all: bad": _set_all(_values(TOPICS, TOPIC, ("retention.ms", "soon"), ("made.up", "1"))),
    "set all: twice": _set_all(
        _values(TOPICS, TOPIC, ("retention.ms", "1"), ("retention.ms", "2"))
    ),
    "set all: missing": _set_all(
        _values(TOPICS, MISSING, ("retention.ms", "5")), _values(TOPICS, "")
    ),
    "set all: group": _set_all(_values(GROUPS, "raw-x", ("consumer.session.timeout.ms", "soon"))),
    "set all: metrics": _set_all(_values(METRICS, "raw-x", ("interval.ms", "soon"))),
    "set all: loggers": _set_all(_values(LOGGERS, "1", ("root", "INFO"))),
    "set all: brokers": _set_all(
        _values(BROKERS, "1", ("log.retention.ms", "soon")),
        _values(BROKERS, "2", ("log.retention.ms", "5")),
        _values(BROKERS, "one"),
    ),
}

RESOURCES: Final[Mapping[str, Call]] = {
    "resources: unknown type": call(ApiKey.LIST_CONFIG_RESOURCES, range(1, 2), resource_types=[0]),
    "resources: type 64": call(ApiKey.LIST_CONFIG_RESOURCES, range(1, 2), resource_types=[64, 4]),
    "resources: type -1": call(ApiKey.LIST_CONFIG_RESOURCES, range(1, 2), resource_types=[-1]),
    "resources: brokers twice": call(
        ApiKey.LIST_CONFIG_RESOURCES, range(1, 2), resource_types=[BROKERS, BROKERS, LOGGERS]
    ),
}


def _quota(
    entity: Sequence[tuple[str, str | None]], *operations: tuple[str, float | None]
) -> Plain:
    return {
        "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity],
        "ops": [
            {"key": key, "value": value or 0.0, "remove": value is None}
            for key, value in operations
        ],
    }


def _quotas(*entries: Plain) -> Call:
    return call(ApiKey.ALTER_CLIENT_QUOTAS, entries=list(entries), validate_only=True)


USER: Final = [("user", "raw")]


def _find(*components: tuple[str, int, str | None], strict: bool = False) -> Call:
    return call(
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        components=[
            {"entity_type": kind, "match_type": how, "match": match}
            for kind, how, match in components
        ],
        strict=strict,
    )


QUOTAS: Final[Mapping[str, Call]] = {
    "quota: user": _quotas(_quota(USER, ("producer_byte_rate", 1024.0))),
    "quota: nothing": _quotas(),
    "quota: no operations": _quotas(_quota(USER)),
    "quota: negative": _quotas(_quota(USER, ("producer_byte_rate", -1.0))),
    "quota: zero": _quotas(_quota(USER, ("producer_byte_rate", 0.0))),
    "quota: percentage": _quotas(_quota(USER, ("request_percentage", 0.5))),
    "quota: fraction": _quotas(_quota(USER, ("producer_byte_rate", 1.5))),
    "quota: hardly anything": _quotas(_quota(USER, ("producer_byte_rate", 5e-7))),
    "quota: hardly more": _quotas(_quota(USER, ("producer_byte_rate", 2e-6))),
    "quota: hardly more than whole": _quotas(_quota(USER, ("producer_byte_rate", 3 + 5e-7))),
    "quota: hardly less than whole": _quotas(_quota(USER, ("producer_byte_rate", 3 - 5e-7))),
    "quota: too large": _quotas(_quota(USER, ("consumer_byte_rate", 1e30))),
    "quota: infinite": _quotas(_quota(USER, ("request_percentage", float("inf")))),
    "quota: not a number": _quotas(_quota(USER, ("request_percentage", float("nan")))),
    "quota: mutations": _quotas(_quota(USER, ("controller_mutation_rate", 0.5))),
    "quota: unknown": _quotas(_quota(USER, ("made_up", 1.0))),
    "quota: nameless": _quotas(_quota(USER, ("", 1.0))),
    "quota: unknown removed": _quotas(_quota(USER, ("made_up", None))),
    "quota: connections of a user": _quotas(_quota(USER, ("connection_creation_rate", 5.0))),
    "quota: nameless user": _quotas(_quota([("user", "")], ("producer_byte_rate", 5.0))),
    "quota: of a group": _quotas(_quota([("group", "g")], ("producer_byte_rate", 5.0))),
    "quota: of nobody": _quotas(_quota([], ("producer_byte_rate", 5.0))),
    "quota: key twice": _quotas(
        _quota(USER, ("producer_byte_rate", 5.0), ("producer_byte_rate", 6.0))
    ),
    "quota: entity twice": _quotas(
        _quota(USER, ("producer_byte_rate", 1.0)), _quota(USER, ("consumer_byte_rate", 1.0))
    ),
    "quota: type twice": _quotas(
        _quota([("user", "a"), ("user", "b")], ("producer_byte_rate", 1.0))
    ),
    "quota: empty type": _quotas(_quota([("", "a")], ("producer_byte_rate", 1.0))),
    "quota: long name": _quotas(_quota([("user", LONG)], ("producer_byte_rate", 1.0))),
    "quota: default": _quotas(_quota([("user", None)], ("producer_byte_rate", 1.0))),
    "quota: default ip": _quotas(_quota([("ip", None)], ("connection_creation_rate", 1.0))),
    "quota: ip with bytes": _quotas(_quota([("ip", "10.0.0.1")], ("producer_byte_rate", 1.0))),
    "quota: ip of a user": _quotas(
        _quota([*USER, ("ip", "10.0.0.1")], ("connection_creation_rate", 5.0))
    ),
    "quota: bad ip": _quotas(_quota([("ip", "not an ip")], ("connection_creation_rate", 5.0))),
    "quota: empty ip": _quotas(_quota([("ip", "")], ("connection_creation_rate", 1.0))),
    "quota: fractional connections": _quotas(
        _quota([("ip", "10.0.0.1")], ("connection_creation_rate", 1.5))
    ),
    "quota: negative connections": _quotas(
        _quota([("ip", "10.0.0.1")], ("connection_creation_rate", -1.0))
    ),
    "quota: huge connections": _quotas(
        _quota([("ip", "10.0.0.1")], ("connection_creation_rate", 1e12))
    ),
    "quota: client": _quotas(_quota([("client-id", "a b/c")], ("producer_byte_rate", 1.0))),
    "quota: several": _quotas(
        _quota(USER, ("producer_byte_rate", 1.0)),
        _quota([("client-id", "x")], ("made_up", 1.0)),
        _quota([("made-up", "x")], ("producer_byte_rate", 1.0)),
    ),
    "quotas: none": _find(("user", 0, "raw-nobody")),
    "quotas: strict": _find(("user", 0, "raw-nobody"), ("client-id", 0, "x"), strict=True),
    "quotas: default with a name": _find(("user", 1, "a")),
    "quotas: any with a name": _find(("user", 2, "a")),
    "quotas: exactly null": _find(("user", 0, None)),
    "quotas: match 9": _find(("user", 9, "a")),
    "quotas: of a group": _find(("group", 0, "x")),
    "quotas: of no type": _find(("", 0, "x")),
    "quotas: type twice": _find(("user", 0, "a"), ("user", 0, "b")),
    "quotas: user and ip": _find(("user", 0, "a"), ("ip", 0, "10.0.0.1")),
    "quotas: negative match": _find(("user", -1, "a")),
}


def _users(*names: str) -> Call:
    users = [{"name": name} for name in names]
    return call(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, users=users)


def _scram(
    deletions: list[tuple[str, int]],
    *upsertions: tuple[str, int, int, bytes, bytes],
) -> Call:
    return call(
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        deletions=[{"name": name, "mechanism": number} for name, number in deletions],
        upsertions=[
            {
                "name": name,
                "mechanism": number,
                "iterations": iterations,
                "salt": salt,
                "salted_password": password,
            }
            for name, number, iterations, salt, password in upsertions
        ],
    )


SALT: Final = b"salt"
PASSWORD: Final = bytes(32)

SCRAM: Final[Mapping[str, Call]] = {
    "scram: unknown": _users("raw-nobody"),
    "scram: nameless": _users(""),
    "scram: twice": _users("raw-nobody", "raw-nobody"),
    "scram change: nothing": _scram([]),
    "scram change: unknown": _scram([("raw-nobody", 1)]),
    "scram change: nameless": _scram([("", 1)], ("", 1, 4096, SALT, PASSWORD)),
    "scram change: mechanism 0": _scram([("raw-nobody", 0)]),
    "scram change: mechanism 9": _scram([], ("raw-user", 9, 4096, SALT, PASSWORD)),
    "scram change: few iterations": _scram([], ("raw-user", 1, 4095, SALT, PASSWORD)),
    "scram change: no iterations": _scram([], ("raw-user", 2, 0, SALT, PASSWORD)),
    "scram change: many iterations": _scram([], ("raw-user", 1, 16_385, SALT, PASSWORD)),
    "scram change: no salt": _scram([], ("raw-user", 9, 4096, b"", PASSWORD)),
    "scram change: twice": _scram(
        [], ("raw-user", 1, 4096, SALT, PASSWORD), ("raw-user", 1, 8192, SALT, PASSWORD)
    ),
    "scram change: deleted and set": _scram(
        [("raw-user", 1)], ("raw-user", 1, 4096, SALT, PASSWORD)
    ),
    "scram change: deleted twice": _scram([("raw-nobody", 1), ("raw-nobody", 1)]),
    "scram change: good with bad": _scram([("raw-nobody", 2)], ("raw-user", 1, 1, SALT, PASSWORD)),
}

CALLS: Final[Mapping[str, Call]] = {
    **DESCRIBE,
    **CHANGE,
    **SET_ALL,
    **RESOURCES,
    **QUOTAS,
    **SCRAM,
}
