"""Describes and changes the settings of topics, brokers and groups."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Final, TypeVar

from embedkafka.protocol.errors import ApiError, ErrorCode
from embedkafka.protocol.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from embedkafka.runtime.failures import ConfigError
from embedkafka.server.config.broker import BrokerConfig, check_change
from embedkafka.server.config.broker_keys import BROKER_KEYS
from embedkafka.server.config.definition import (
    CLUSTER_WIDE,
    READ_ONLY,
    ConfigKey,
    ConfigType,
    ConfigValue,
    format_value,
)
from embedkafka.server.config.docs import documentation
from embedkafka.server.config.dynamic import BROKERS, GROUPS, TOPICS
from embedkafka.server.config.group import GROUP_KEYS, parse_group_settings
from embedkafka.server.config.inert import find_inert
from embedkafka.server.config.topic import parse_topic_settings
from embedkafka.server.config.topic_keys import TOPIC_KEYS
from embedkafka.server.config.view import (
    ConfigEntry,
    broker_entries,
    cluster_entries,
    group_entries,
    topic_entries,
)
from embedkafka.server.topics.rules import check_topic_name
from embedkafka.zk.payloads import DEFAULT_ENTITY, sanitize

if TYPE_CHECKING:
    from embedkafka.server.broker import Broker
    from embedkafka.server.dispatch import RequestContext


class ResourceType(IntEnum):
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


_KEYS: Final[Mapping[int, Mapping[str, ConfigKey]]] = {
    ResourceType.TOPIC: TOPIC_KEYS,
    ResourceType.BROKER: BROKER_KEYS,
    ResourceType.GROUP: GROUP_KEYS,
}


class AlterOp(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


def describe_configs(
    broker: "Broker", request: DescribeConfigsRequest, context: "RequestContext"
) -> DescribeConfigsResponse:
    """Settings of topics, groups, this broker, and (broker with an empty name) of all brokers.

    Left out: loggers and client metrics.
    """
    return DescribeConfigsResponse(
        results=[_described(broker, resource, request) for resource in request.resources]
    )


def list_config_resources(
    broker: "Broker", request: ListConfigResourcesRequest, context: "RequestContext"
) -> ListConfigResourcesResponse:
    """Lists resources with settings: topics, brokers, and groups that override any.

    Versions:  v0 knows client metrics only.
    Left out:  client metrics; the list has none.
    """
    known = list(ResourceType) if context.version else [ResourceType.CLIENT_METRICS]
    wanted = request.resource_types or known
    if not set(wanted) <= set(known):
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
    snapshot = broker.metadata.snapshot
    brokers = [str(broker_id) for broker_id in sorted(snapshot.brokers)]
    names: Mapping[ResourceType, Sequence[str]] = {
        ResourceType.GROUP: broker.config.configured_groups(),
        ResourceType.BROKER_LOGGER: brokers,
        ResourceType.BROKER: brokers,
        ResourceType.TOPIC: list(snapshot.topics),
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
    broker: "Broker", resource: DescribeConfigsRequest.Resource, request: DescribeConfigsRequest
) -> DescribeConfigsResponse.Resource:
    error, entries = None, list[ConfigEntry]()
    try:
        entries = _entries(broker, resource.resource_type, resource.resource_name)
    except ApiError as api_error:
        error = api_error
    wanted = resource.configuration_keys
    return DescribeConfigsResponse.Resource(
        error_code=error.code if error else ErrorCode.NONE,
        error_message=(error.message or error.code.message) if error else None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[
            _config(entry, request) for entry in entries if not wanted or entry.name in wanted
        ],
    )


def _entries(broker: "Broker", resource_type: int, name: str) -> list[ConfigEntry]:
    if resource_type == ResourceType.TOPIC:
        _check_topic(broker, name)
        return list(topic_entries(broker.config.overrides(TOPICS, name), broker.config))
    if resource_type == ResourceType.BROKER:
        if _broker_entity(broker, name) == DEFAULT_ENTITY:
            return list(cluster_entries(broker.config))
        return list(broker_entries(broker.config))
    if resource_type == ResourceType.GROUP:
        if not name:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
        own = broker.config.overrides(GROUPS, sanitize(name))
        return list(group_entries(own, broker.config))
    raise _unsupported(resource_type)


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
    broker: "Broker", request: AlterConfigsRequest, context: "RequestContext"
) -> AlterConfigsResponse:
    """Replaces all settings of a resource; settings not named fall back to their defaults."""

    def replace(resource: AlterConfigsRequest.Resource) -> None:
        settings: dict[str, str] = {}
        for config in resource.configs:
            if config.value is None:
                raise _null_value(config.name)
            settings[config.name] = config.value
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
    broker: "Broker", request: IncrementalAlterConfigsRequest, context: "RequestContext"
) -> IncrementalAlterConfigsResponse:
    """Sets, deletes, appends to or subtracts from single settings."""

    def change(resource: IncrementalAlterConfigsRequest.Resource) -> None:
        keys = _KEYS.get(resource.resource_type, BROKER_KEYS)
        _alter(
            broker,
            resource,
            lambda old: _changed(old, resource.configs, keys),
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
    broker: "Broker",
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
        elif entity_type == GROUPS:
            parse_group_settings(new, broker.config.broker)
        else:
            _check_broker_settings(
                new, old, broker.config.broker, per_broker=entity != DEFAULT_ENTITY
            )
    except ConfigError as error:
        # For brokers, Kafka reports a bad value as INVALID_REQUEST.
        is_brokers = entity_type == BROKERS
        code = ErrorCode.INVALID_REQUEST if is_brokers else ErrorCode.INVALID_CONFIG
        raise ApiError(code, str(error)) from error
    if not validate_only:
        broker.config.set_overrides(entity_type, entity, new)


def _entity(broker: "Broker", resource: _AnyResource) -> tuple[str, str]:
    if resource.resource_type == ResourceType.TOPIC:
        _check_topic(broker, resource.resource_name)
        return TOPICS, resource.resource_name
    if resource.resource_type == ResourceType.BROKER:
        return BROKERS, _broker_entity(broker, resource.resource_name)
    if resource.resource_type == ResourceType.GROUP:
        if not resource.resource_name:
            message = "Default group resources are not allowed."
            raise ApiError(ErrorCode.INVALID_REQUEST, message)
        return GROUPS, sanitize(resource.resource_name)
    raise _unsupported(resource.resource_type)


def _changed(
    old: Mapping[str, str],
    changes: Iterable[IncrementalAlterConfigsRequest.Resource.Config],
    keys: Mapping[str, ConfigKey],
) -> dict[str, str]:
    new = dict(old)
    for change in changes:
        key = keys.get(change.name)
        if change.config_operation == AlterOp.DELETE:
            new.pop(change.name, None)
            continue
        if change.value is None:
            raise _null_value(change.name)
        if change.config_operation == AlterOp.SET:
            new[change.name] = change.value
        elif change.config_operation in (AlterOp.APPEND, AlterOp.SUBTRACT):
            new[change.name] = _edited_list(key, change, new.get(change.name))
        else:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"Unknown operation type {change.config_operation} for {change.name}.",
            )
    return new


def _edited_list(
    key: ConfigKey | None,
    change: IncrementalAlterConfigsRequest.Resource.Config,
    current: str | None,
) -> str:
    operation = AlterOp(change.config_operation)
    if key is None or key.type is not ConfigType.LIST:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"Can't {operation.name} to key {change.name} because its type is not LIST.",
        )
    default = format_value(key.default)
    items = [item for item in (default if current is None else current).split(",") if item]
    edits = [item.strip() for item in (change.value or "").split(",") if item.strip()]
    if operation is AlterOp.APPEND:
        return ",".join(items + [item for item in edits if item not in items])
    return ",".join(item for item in items if item not in edits)


def _check_broker_settings(
    new: Mapping[str, str], old: Mapping[str, str], current: BrokerConfig, *, per_broker: bool
) -> None:
    """Refuses keys that cannot change at run time or have no effect, and bad values."""
    parsed: dict[str, ConfigValue] = {}
    for name, text in new.items():
        key, inert = BROKER_KEYS.get(name), find_inert(name)
        is_changed = old.get(name) != text
        if key is not None:
            if is_changed and (
                key.update is READ_ONLY or (key.update is not CLUSTER_WIDE and not per_broker)
            ):
                raise ConfigError(f"Cannot update these configs dynamically: Set({name})")
            parsed[name] = key.parse(text)
            is_changed = is_changed and parsed[name] != current[name]
        # Kafka accepts unknown names, which may be meant for a plug-in.
        if is_changed and inert is not None:
            raise ConfigError(f"{name} has no effect: {inert.reason}")
    check_change(current, parsed)


def _check_repeated(names: Sequence[str]) -> None:
    repeated = sorted(name for name, count in Counter(names).items() if count > 1)
    if repeated:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"Error due to duplicate config keys: {','.join(repeated)}"
        )


def _check_topic(broker: "Broker", name: str) -> None:
    check_topic_name(name)
    if name not in broker.metadata.snapshot.topics:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")


def _broker_entity(broker: "Broker", name: str) -> str:
    """The store's name for a broker's settings; an empty `name` means all brokers."""
    if not name:
        return DEFAULT_ENTITY
    if name != str(broker.id):
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {broker.id} or empty string, but received {name}",
        )
    return name


def _unsupported(resource_type: int) -> ApiError:
    return ApiError(
        ErrorCode.INVALID_REQUEST,
        f"Unsupported resource type {resource_type}: expected topic, broker or group",
    )


def _null_value(name: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {name}")
