"""Configs of topics and brokers, client quotas, SCRAM credentials and cluster features."""

from collections.abc import Sequence

from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.message import message, since, struct, until
from embedkafka.wire.protocol.wire_types import ConfigResourceName, Float64, Int8, Int16, Int32


@message(api=ApiKey.DESCRIBE_CONFIGS, versions=(0, 4), flexible=4)
class DescribeConfigsRequest:
    """Ask for configs of topics, brokers and others; null keys mean all keys.

    v1 synonyms.  v3 documentation.
    """

    @struct
    class Resource:
        resource_type: Int8
        resource_name: ConfigResourceName
        configuration_keys: Sequence[str] | None

    resources: Sequence[Resource]
    include_synonyms: bool = since(1, default=False)
    include_documentation: bool = since(3, default=False)


@message(api=ApiKey.DESCRIBE_CONFIGS, versions=(0, 4), flexible=4)
class DescribeConfigsResponse:
    """Config values and their sources.

    v1 the source, instead of a plain "is default", and synonyms.  v3 type and documentation.
    """

    @struct
    class Resource:
        @struct
        class Config:
            @struct
            class Synonym:
                name: str
                value: str | None
                source: Int8

            name: str
            value: str | None
            read_only: bool
            is_default: bool = until(0, default=False)
            config_source: Int8 = since(1, default=-1)
            is_sensitive: bool
            synonyms: Sequence[Synonym] = since(1, default=())
            config_type: Int8 = since(3, default=0)
            documentation: str | None = since(3, default=None)

        error_code: Int16 = 0
        error_message: str | None = None
        resource_type: Int8
        resource_name: ConfigResourceName
        configs: Sequence[Config]

    throttle_time_ms: Int32 = 0
    results: Sequence[Resource]


@message(api=ApiKey.ALTER_CONFIGS, versions=(0, 2), flexible=2)
class AlterConfigsRequest:
    """Replace all configs of a resource; keys left out fall back to defaults."""

    @struct
    class Resource:
        @struct
        class Config:
            name: str
            value: str | None

        resource_type: Int8
        resource_name: ConfigResourceName
        configs: Sequence[Config]

    resources: Sequence[Resource]
    validate_only: bool


@message(api=ApiKey.ALTER_CONFIGS, versions=(0, 2), flexible=2)
class AlterConfigsResponse:
    """The result for each resource."""

    @struct
    class Resource:
        error_code: Int16 = 0
        error_message: str | None = None
        resource_type: Int8
        resource_name: ConfigResourceName

    throttle_time_ms: Int32 = 0
    responses: Sequence[Resource]


@message(api=ApiKey.INCREMENTAL_ALTER_CONFIGS, versions=(0, 1), flexible=1)
class IncrementalAlterConfigsRequest:
    """Set, delete, append to or subtract from single config keys."""

    @struct
    class Resource:
        @struct
        class Config:
            name: str
            config_operation: Int8  # 0 set, 1 delete, 2 append, 3 subtract
            value: str | None

        resource_type: Int8
        resource_name: ConfigResourceName
        configs: Sequence[Config]

    resources: Sequence[Resource]
    validate_only: bool


@message(api=ApiKey.INCREMENTAL_ALTER_CONFIGS, versions=(0, 1), flexible=1)
class IncrementalAlterConfigsResponse:
    """The result for each resource."""

    @struct
    class Resource:
        error_code: Int16 = 0
        error_message: str | None = None
        resource_type: Int8
        resource_name: ConfigResourceName

    throttle_time_ms: Int32 = 0
    responses: Sequence[Resource]


@message(api=ApiKey.LIST_CONFIG_RESOURCES, versions=(0, 1), flexible=0)
class ListConfigResourcesRequest:
    """Ask which resources have configs; no types mean all types.

    v0 client metrics only.  v1 the types.
    """

    resource_types: Sequence[Int8] = since(1, default=())


@message(api=ApiKey.LIST_CONFIG_RESOURCES, versions=(0, 1), flexible=0)
class ListConfigResourcesResponse:
    """The resources that have configs.

    v1 their types.
    """

    @struct
    class Resource:
        resource_name: str
        resource_type: Int8 = since(1, default=16)

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    config_resources: Sequence[Resource] = ()


@message(api=ApiKey.DESCRIBE_CLIENT_QUOTAS, versions=(0, 1), flexible=1)
class DescribeClientQuotasRequest:
    """Ask for quotas whose entities match all of the components."""

    @struct
    class Component:
        entity_type: str
        match_type: Int8  # 0 exact, 1 default entity, 2 any
        match: str | None

    components: Sequence[Component]
    strict: bool


@message(api=ApiKey.DESCRIBE_CLIENT_QUOTAS, versions=(0, 1), flexible=1)
class DescribeClientQuotasResponse:
    """Entities and their quotas."""

    @struct
    class Entry:
        @struct
        class Entity:
            entity_type: str
            entity_name: str | None

        @struct
        class Value:
            key: str
            value: Float64

        entity: Sequence[Entity]
        values: Sequence[Value]

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    entries: Sequence[Entry] | None


@message(api=ApiKey.ALTER_CLIENT_QUOTAS, versions=(0, 1), flexible=1)
class AlterClientQuotasRequest:
    """Set or remove quotas of entities."""

    @struct
    class Entry:
        @struct
        class Entity:
            entity_type: str
            entity_name: str | None

        @struct
        class Op:
            key: str
            value: Float64
            remove: bool

        entity: Sequence[Entity]
        ops: Sequence[Op]

    entries: Sequence[Entry]
    validate_only: bool


@message(api=ApiKey.ALTER_CLIENT_QUOTAS, versions=(0, 1), flexible=1)
class AlterClientQuotasResponse:
    """What became of each entity."""

    @struct
    class Entry:
        @struct
        class Entity:
            entity_type: str
            entity_name: str | None

        error_code: Int16 = 0
        error_message: str | None = None
        entity: Sequence[Entity]

    throttle_time_ms: Int32 = 0
    entries: Sequence[Entry]


@message(api=ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, versions=(0, 0), flexible=0)
class DescribeUserScramCredentialsRequest:
    """Ask which SCRAM credentials users have; null is all users."""

    @struct
    class User:
        name: str

    users: Sequence[User] | None


@message(api=ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, versions=(0, 0), flexible=0)
class DescribeUserScramCredentialsResponse:
    """Mechanisms and iterations of each user, never the secrets."""

    @struct
    class User:
        @struct
        class Credential:
            mechanism: Int8
            iterations: Int32

        user: str
        error_code: Int16 = 0
        error_message: str | None = None
        credential_infos: Sequence[Credential]

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    results: Sequence[User]


@message(api=ApiKey.ALTER_USER_SCRAM_CREDENTIALS, versions=(0, 0), flexible=0)
class AlterUserScramCredentialsRequest:
    """Set or delete SCRAM credentials."""

    @struct
    class Deletion:
        name: str
        mechanism: Int8

    @struct
    class Upsertion:
        name: str
        mechanism: Int8
        iterations: Int32
        salt: bytes
        salted_password: bytes

    deletions: Sequence[Deletion]
    upsertions: Sequence[Upsertion]


@message(api=ApiKey.ALTER_USER_SCRAM_CREDENTIALS, versions=(0, 0), flexible=0)
class AlterUserScramCredentialsResponse:
    """The result for each user."""

    @struct
    class User:
        user: str
        error_code: Int16 = 0
        error_message: str | None = None

    throttle_time_ms: Int32 = 0
    results: Sequence[User]


@message(api=ApiKey.UPDATE_FEATURES, versions=(0, 2), flexible=0)
class UpdateFeaturesRequest:
    """Raise or lower the levels of cluster features.

    v1 tells safe from unsafe downgrades, instead of a plain flag, and can only validate.
    """

    @struct
    class FeatureUpdate:
        feature: str
        max_version_level: Int16
        allow_downgrade: bool = until(0, default=False)
        upgrade_type: Int8 = since(1, default=1)  # 1 upgrade, 2 safe downgrade, 3 unsafe downgrade

    timeout_ms: Int32 = 60000
    feature_updates: Sequence[FeatureUpdate]
    validate_only: bool = since(1, default=False)


@message(api=ApiKey.UPDATE_FEATURES, versions=(0, 2), flexible=0)
class UpdateFeaturesResponse:
    """The result for each feature; from v2 for all of them together."""

    @struct
    class Feature:
        feature: str
        error_code: Int16 = 0
        error_message: str | None = None

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    results: Sequence[Feature] = until(1, default=())
