"""Describes and changes the settings of topics, brokers, groups, loggers and client metrics."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Final, TypeVar

from embedkafka.broker import loggers
from embedkafka.broker.api_table import MEANING, REASON, Api, Need
from embedkafka.broker.settings.broker import (
    BrokerConfig,
    check_change,
    find_broker_key,
    find_inert_in,
)
from embedkafka.broker.settings.broker_keys import BROKER_KEYS
from embedkafka.broker.settings.client_metrics import CLIENT_METRICS, check_client_metrics
from embedkafka.broker.settings.definition import (
    CLUSTER_WIDE,
    PER_BROKER,
    READ_ONLY,
    ConfigKey,
    ConfigType,
    ConfigValue,
    at_least,
    format_value,
    int_key,
)
from embedkafka.broker.settings.dynamic import BROKERS, GROUPS, TOPICS
from embedkafka.broker.settings.group import GROUP_KEYS, parse_group_settings
from embedkafka.broker.settings.listener_keys import (
    LIMITS,
    LISTENER_PREFIX,
    check_listeners_keep,
    is_store,
)
from embedkafka.broker.settings.topic import parse_topic_settings
from embedkafka.broker.settings.topic_keys import TOPIC_KEYS
from embedkafka.broker.settings.view import (
    ConfigEntry,
    ConfigSource,
    broker_entries,
    client_metrics_entries,
    cluster_entries,
    documentation,
    group_entries,
    topic_entries,
)
from embedkafka.broker.topics.rules import check_topic_name
from embedkafka.runtime.failures import ConfigError
from embedkafka.security.acl.operations import AclOperation, ResourceType
from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.wire.protocol.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from embedkafka.wire.protocol.wire_types import MAX_INT
from embedkafka.zk.payloads import DEFAULT_ENTITY, sanitize

if TYPE_CHECKING:
    from embedkafka.broker.authorization.checks import Checks
    from embedkafka.broker.dispatch import RequestContext
    from embedkafka.broker.parts import BrokerParts


class ConfigResourceType(IntEnum):
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


_TYPES: Final = frozenset(ConfigResourceType)
_KEYS: Final[Mapping[int, Mapping[str, ConfigKey]]] = {
    ConfigResourceType.TOPIC: TOPIC_KEYS,
    ConfigResourceType.BROKER: BROKER_KEYS,
    ConfigResourceType.GROUP: GROUP_KEYS,
}


class AlterOp(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


def describe_configs(
    broker: "BrokerParts", request: DescribeConfigsRequest, context: "RequestContext"
) -> DescribeConfigsResponse:
    """Settings of topics, groups, client metrics, this broker and its loggers, and all brokers.

    Behaviour: a resource of an unknown type fails the whole request.
    """
    if any(resource.resource_type not in _TYPES for resource in request.resources):
        return DescribeConfigsResponse(results=list(map(_invalid, request.resources)))
    return DescribeConfigsResponse(
        results=[_described(broker, resource, request) for resource in request.resources]
    )


def list_config_resources(
    broker: "BrokerParts", request: ListConfigResourcesRequest, context: "RequestContext"
) -> ListConfigResourcesResponse:
    """Lists topics, brokers, and the groups and client metrics that have settings.

    Versions: v0 knows client metrics only.
    """
    known = list(ConfigResourceType) if context.version else [ConfigResourceType.CLIENT_METRICS]
    wanted = request.resource_types or known
    if not set(wanted) <= set(known):
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
    snapshot = broker.metadata.snapshot
    brokers = [str(broker_id) for broker_id in sorted(snapshot.brokers)]
    names: Mapping[ConfigResourceType, Sequence[str]] = {
        ConfigResourceType.GROUP: broker.config.configured_groups(),
        ConfigResourceType.CLIENT_METRICS: broker.config.configured_client_metrics(),
        ConfigResourceType.BROKER_LOGGER: brokers,
        ConfigResourceType.BROKER: brokers,
        ConfigResourceType.TOPIC: list(snapshot.topics),
    }
    resource = ListConfigResourcesResponse.Resource
    return ListConfigResourcesResponse(
        config_resources=[
            resource(resource_name=name, resource_type=resource_type)
            for resource_type, found in names.items()
            if resource_type in wanted
            for name in found
        ]
    )


def _described(
    broker: "BrokerParts",
    resource: DescribeConfigsRequest.Resource,
    request: DescribeConfigsRequest,
) -> DescribeConfigsResponse.Resource:
    error, entries = None, list[ConfigEntry]()
    try:
        entries = _entries(broker, resource.resource_type, resource.resource_name)
    except ApiError as api_error:
        error = api_error
    wanted = resource.configuration_keys
    return DescribeConfigsResponse.Resource(
        error_code=error.code if error else ErrorCode.NONE,
        error_message=_described_message(error),
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[
            _config(entry, request) for entry in entries if not wanted or entry.name in wanted
        ],
    )


def _invalid(resource: DescribeConfigsRequest.Resource) -> DescribeConfigsResponse.Resource:
    return DescribeConfigsResponse.Resource(
        error_code=ErrorCode.INVALID_REQUEST,
        error_message=ErrorCode.INVALID_REQUEST.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[],
    )


def _described_message(error: ApiError | None) -> str:
    """Empty, not null, where there is nothing to explain."""
    if error is None or error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return ""
    return error.message


def _entries(broker: "BrokerParts", resource_type: int, name: str) -> list[ConfigEntry]:
    if resource_type == ConfigResourceType.TOPIC:
        _check_topic(broker, name)
        return list(topic_entries(broker.config.overrides(TOPICS, name), broker.config))
    if resource_type == ConfigResourceType.BROKER:
        if not name:
            return list(cluster_entries(broker.config))
        expected = f"Unexpected broker id, expected {broker.id} or empty string, but"
        _check_broker(broker, name, noun="Broker", expected=expected)
        return list(broker_entries(broker.config))
    if resource_type == ConfigResourceType.GROUP:
        if not name:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
        own = broker.config.overrides(GROUPS, sanitize(name))
        return list(group_entries(own, broker.config))
    if resource_type == ConfigResourceType.CLIENT_METRICS:
        if not name:
            message = "Client metrics subscription name must not be empty"
            raise ApiError(ErrorCode.INVALID_REQUEST, message)
        own = broker.config.overrides(CLIENT_METRICS, sanitize(name))
        return list(client_metrics_entries(own))
    assert resource_type == ConfigResourceType.BROKER_LOGGER, (
        f"type {resource_type} was let through"
    )
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
    expected = f"Unexpected broker id, expected {broker.id} but"
    _check_broker(broker, name, noun="Broker", expected=expected)
    return [_logger_entry(logger) for logger in loggers.LOGGERS]


def _logger_entry(name: str) -> ConfigEntry:
    return ConfigEntry(
        name=name,
        value=loggers.level_of(name),
        type=ConfigType.UNKNOWN,
        source=ConfigSource.BROKER_LOGGER,
        read_only=False,
        is_sensitive=False,
        synonyms=(),
    )


def _config(
    entry: ConfigEntry, request: DescribeConfigsRequest
) -> DescribeConfigsResponse.Resource.Config:
    synonyms = entry.synonyms if request.include_synonyms else ()
    return DescribeConfigsResponse.Resource.Config(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        config_type=entry.type,
        documentation=documentation(entry.name) if request.include_documentation else None,
        synonyms=[
            DescribeConfigsResponse.Resource.Config.Synonym(
                name=synonym.name, value=synonym.value, source=synonym.source
            )
            for synonym in synonyms
        ],
    )


def alter_configs(
    broker: "BrokerParts", request: AlterConfigsRequest, context: "RequestContext"
) -> AlterConfigsResponse:
    """Replaces all settings of a resource; settings not named fall back to their defaults."""

    def replace(resource: AlterConfigsRequest.Resource) -> None:
        settings: dict[str, str] = {}
        _check_nulls(config.name for config in resource.configs if config.value is None)
        for config in resource.configs:
            settings[config.name] = config.value or ""
        _alter(broker, resource, lambda old: settings, validate_only=request.validate_only)

    return AlterConfigsResponse(
        responses=[
            AlterConfigsResponse.Resource(
                error_code=code,
                error_message=message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource, code, message in _each(request.resources, replace)
        ]
    )


def incremental_alter_configs(
    broker: "BrokerParts", request: IncrementalAlterConfigsRequest, context: "RequestContext"
) -> IncrementalAlterConfigsResponse:
    """Sets, deletes, appends to or subtracts from single settings, or levels of loggers."""

    def change(resource: IncrementalAlterConfigsRequest.Resource) -> None:
        if resource.resource_type == ConfigResourceType.BROKER_LOGGER:
            _alter_loggers(broker, resource, validate_only=request.validate_only)
            return
        keys = _KEYS.get(resource.resource_type, BROKER_KEYS)
        _changed({}, resource, keys)  # an impossible operation counts more than a bad name
        _alter(
            broker,
            resource,
            lambda old: _changed(old, resource, keys),
            validate_only=request.validate_only,
        )

    return IncrementalAlterConfigsResponse(
        responses=[
            IncrementalAlterConfigsResponse.Resource(
                error_code=code,
                error_message=message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource, code, message in _each(request.resources, change)
        ]
    )


_AnyResource = AlterConfigsRequest.Resource | IncrementalAlterConfigsRequest.Resource
R = TypeVar("R", AlterConfigsRequest.Resource, IncrementalAlterConfigsRequest.Resource)


def _each(
    resources: Sequence[R], change: Callable[[R], None]
) -> Iterable[tuple[R, ErrorCode, str | None]]:
    """Changes one resource after the other; each succeeds or fails alone."""
    seen = Counter((resource.resource_type, resource.resource_name) for resource in resources)
    for resource in resources:
        try:
            if seen[resource.resource_type, resource.resource_name] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            _check_repeated([config.name for config in resource.configs])
            change(resource)
        except ApiError as error:
            yield resource, error.code, error.message or error.code.message
        else:
            yield resource, ErrorCode.NONE, None


def _alter(
    broker: "BrokerParts",
    resource: _AnyResource,
    settings_after: Callable[[Mapping[str, str]], dict[str, str]],
    *,
    validate_only: bool,
) -> None:
    entity_type, entity = _entity(broker, resource)
    old = broker.config.overrides(entity_type, entity)
    new = settings_after(old)
    try:
        if entity_type == TOPICS:
            parse_topic_settings(new)
            _check_topic(broker, entity)  # Kafka looks at the settings first
        elif entity_type == GROUPS:
            parse_group_settings(new, broker.config.broker)
        elif entity_type == CLIENT_METRICS:
            check_client_metrics(new)
        else:
            per_broker = entity != DEFAULT_ENTITY
            changed = _check_broker_settings(new, old, broker.config.broker, per_broker=per_broker)
            if per_broker:
                _check_listeners(broker, new, old, changed)
    except ConfigError as error:
        # For brokers, Kafka reports a bad value as INVALID_REQUEST.
        is_brokers = entity_type == BROKERS
        code = ErrorCode.INVALID_REQUEST if is_brokers else ErrorCode.INVALID_CONFIG
        raise ApiError(code, str(error)) from error
    if not validate_only:
        broker.config.set_overrides(entity_type, entity, new)


def _alter_loggers(
    broker: "BrokerParts",
    resource: IncrementalAlterConfigsRequest.Resource,
    *,
    validate_only: bool,
) -> None:
    """Changes all levels or none; they are lost with the process, as in Kafka."""
    expected = f"Unexpected node id. Expected {broker.id}, but"
    _check_broker(broker, resource.resource_name, noun="Node", expected=expected)
    levels: dict[str, str | None] = {}
    for change in resource.configs:
        if change.config_operation in (AlterOp.APPEND, AlterOp.SUBTRACT):
            operation = AlterOp(change.config_operation).name
            message = f"{operation} operation is not allowed for the BROKER_LOGGER resource"
            raise ApiError(ErrorCode.INVALID_REQUEST, message)
        deleted = change.config_operation == AlterOp.DELETE
        _check_nulls([change.name] if change.value is None and not deleted else ())
        levels[change.name] = None if deleted else change.value
        loggers.check_level(change.name, levels[change.name])
    for name, level in levels.items() if not validate_only else ():
        loggers.set_level(name, level)


def _entity(broker: "BrokerParts", resource: _AnyResource) -> tuple[str, str]:
    if resource.resource_type == ConfigResourceType.TOPIC:
        if not resource.resource_name:
            message = "Default topic resources are not allowed."
            raise ApiError(ErrorCode.INVALID_REQUEST, message)
        check_topic_name(resource.resource_name)
        return TOPICS, resource.resource_name
    if resource.resource_type == ConfigResourceType.BROKER:
        if not resource.resource_name:
            return BROKERS, DEFAULT_ENTITY
        expected = f"Unexpected broker id, expected {broker.id}, but"
        _check_broker(broker, resource.resource_name, noun="Node", expected=expected)
        return BROKERS, resource.resource_name
    if resource.resource_type == ConfigResourceType.GROUP:
        if not resource.resource_name:
            message = "Default group resources are not allowed."
            raise ApiError(ErrorCode.INVALID_REQUEST, message)
        return GROUPS, sanitize(resource.resource_name)
    if resource.resource_type == ConfigResourceType.CLIENT_METRICS:
        if not resource.resource_name:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
        return CLIENT_METRICS, sanitize(resource.resource_name)
    message = f"Unknown resource type {resource.resource_type}"
    raise ApiError(ErrorCode.INVALID_REQUEST, message)


def _changed(
    old: Mapping[str, str],
    resource: IncrementalAlterConfigsRequest.Resource,
    keys: Mapping[str, ConfigKey],
) -> dict[str, str]:
    _check_nulls(
        change.name
        for change in resource.configs
        if change.value is None and change.config_operation != AlterOp.DELETE
    )
    new = dict(old)
    for change in resource.configs:
        key = keys.get(change.name)
        if change.config_operation == AlterOp.DELETE:
            new.pop(change.name, None)
        elif change.config_operation == AlterOp.SET:
            new[change.name] = change.value or ""
        elif change.config_operation in (AlterOp.APPEND, AlterOp.SUBTRACT):
            current = new.get(change.name)
            new[change.name] = _edited_list(key, change, current, resource.resource_type)
        else:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, f"Unknown operations type {change.config_operation}"
            )
    return new


def _edited_list(
    key: ConfigKey | None,
    change: IncrementalAlterConfigsRequest.Resource.Config,
    current: str | None,
    resource_type: int,
) -> str:
    operation = AlterOp(change.config_operation)
    if key is None or key.type is not ConfigType.LIST:
        raise ApiError(ErrorCode.INVALID_CONFIG, _no_list(operation, change.name, resource_type))
    default = format_value(key.default)
    items = [item for item in (default if current is None else current).split(",") if item]
    edits = [item.strip() for item in (change.value or "").split(",")]
    if operation is AlterOp.APPEND:
        return ",".join(items + [item for item in edits if item not in items])
    return ",".join(item for item in items if item not in edits)


def _no_list(operation: AlterOp, name: str, resource_type: int) -> str:
    """Kafka's brokers refuse before its controller does, in other words."""
    if resource_type == ConfigResourceType.BROKER:
        verb = operation.name.lower()
        return f"Config value {verb} is not allowed for config key: {name}"
    return f"Can't {operation.name} to key {name} because its type is not LIST."


def _check_broker_settings(
    new: Mapping[str, str], old: Mapping[str, str], current: BrokerConfig, *, per_broker: bool
) -> dict[str, ConfigValue]:
    """The typed values; refuses keys that cannot change at run time or have no effect."""
    parsed: dict[str, ConfigValue] = {}
    for name, text in new.items():
        key, inert = find_broker_key(name), find_inert_in(current, name)
        is_changed = old.get(name) != text
        if is_changed and key is not None:
            _check_may_change(name, key, per_broker=per_broker)
        if key is not None:
            parsed[name] = _parsed_at_run_time(key, text)
        if is_changed and not per_broker and _is_for_one_broker(name, key):
            raise ConfigError(
                "Cannot update these configs at default cluster level, broker id must be "
                f"specified: [{name}]"
            )
        if key is not None:  # setting what holds anyway is no change
            is_changed = is_changed and parsed[name] != current.given.get(name, key.default)
        # Kafka accepts unknown names, which may be meant for a plug-in.
        if is_changed and inert is not None:
            raise ConfigError(f"{name} has no effect: {inert.reason}")
    check_change(current, parsed)
    return parsed


def _check_may_change(name: str, key: ConfigKey, *, per_broker: bool) -> None:
    """Refuses a setting that cannot change at run time."""
    if name.startswith(LISTENER_PREFIX):
        return
    if is_store(name):
        raise ConfigError(
            "These security configs can be dynamically updated only per-listener using the "
            f"listener prefix: [{name}]"
        )
    if key.update is READ_ONLY and (per_broker or name != "listeners"):
        raise ConfigError(f"Cannot update these configs dynamically: [{name}]")


def _is_for_one_broker(name: str, key: ConfigKey | None) -> bool:
    if name.startswith(LISTENER_PREFIX):
        return key is None or key.name not in LIMITS
    return key is not None and key.update is not CLUSTER_WIDE


def _check_listeners(
    broker: "BrokerParts",
    new: Mapping[str, str],
    old: Mapping[str, str],
    values: Mapping[str, ConfigValue],
) -> None:
    """Refuses certificates that cannot be used, and contradictions between listeners."""
    static = broker.config.static
    for name in new.keys() | old:
        key = BROKER_KEYS.get(name)
        if key is not None and key.update is PER_BROKER and new.get(name) != old.get(name):
            listeners = [one.name for one in broker.listeners.clients]
            check_listeners_keep(listeners, static.given, {**static.given, **values})
    broker.check_security(static.with_values(values))


def _parsed_at_run_time(key: ConfigKey, text: str) -> ConfigValue:
    """A broker can start without a handler pool, but can neither lose nor get one later."""
    if key.name == "num.io.threads":
        key = int_key(key.name, None, at_least(1))
    return key.parse(text)


def _check_repeated(names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        raise ApiError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")


def _check_topic(broker: "BrokerParts", name: str) -> None:
    check_topic_name(name)
    if name not in broker.metadata.snapshot.topics:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")


def _check_broker(broker: "BrokerParts", name: str, *, noun: str, expected: str) -> None:
    """Refuses the id of another broker: each answers for itself."""
    if name == str(broker.id):
        return
    try:
        is_id = abs(int(name)) <= MAX_INT
    except ValueError:
        is_id = False
    message = (
        f"{expected} received {name}"
        if is_id
        else f"{noun} id must be an integer, but it is: {name}"
    )
    raise ApiError(ErrorCode.INVALID_REQUEST, message)


def _check_nulls(names: Iterable[str]) -> None:
    """Refuses settings that have a name but no value."""
    nulls = ", ".join(names)
    if nulls:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {nulls}")


def _is_of_cluster(check: "Checks", resource: DescribeConfigsRequest.Resource) -> bool:
    """Whether a resource is the cluster to an ACL, as loggers are."""
    return resource.resource_type in (
        ConfigResourceType.BROKER,
        ConfigResourceType.CLIENT_METRICS,
    )


def _is_logger(check: "Checks", resource: DescribeConfigsRequest.Resource) -> bool:
    return resource.resource_type == ConfigResourceType.BROKER_LOGGER


def _needs(operation: AclOperation, *, of_loggers: str | None) -> Sequence[Need]:
    """`of_loggers`: what a refusal says about loggers."""
    on_cluster = Need(operation, ResourceType.CLUSTER, "for brokers", over="resources")
    return [
        Need(operation, ResourceType.TOPIC, "for topics", says=MEANING),
        Need(operation, ResourceType.GROUP, "for groups", says=MEANING),
        on_cluster._replace(when=_is_of_cluster, says=MEANING),
        on_cluster._replace(when=_is_logger, says=of_loggers),
    ]


_TO_ALTER: Final = _needs(AclOperation.ALTER_CONFIGS, of_loggers=None)

APIS: Final[Mapping[ApiKey, Api]] = {
    ApiKey.DESCRIBE_CONFIGS: Api(
        describe_configs, _needs(AclOperation.DESCRIBE_CONFIGS, of_loggers=MEANING)
    ),
    ApiKey.ALTER_CONFIGS: Api(alter_configs, _TO_ALTER),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Api(incremental_alter_configs, _TO_ALTER),
    ApiKey.LIST_CONFIG_RESOURCES: Api(
        list_config_resources,
        [Need(AclOperation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, says=REASON)],
    ),
}
