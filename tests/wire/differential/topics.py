"""Sequences about topics and settings: created, changed, described and deleted."""

from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import Final

from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.wire_types import ZERO_UUID
from tests.wire.differential.invention import Choices, draft
from tests.wire.differential.runs import Versions
from tests.wire.differential.steps import Id, Step
from tests.wire.plain_messages import Plain

_NAMES: Final = ("@a", "@b", "@c")
_TOPIC, _GROUP = 2, 32
#: Settings of each kind of resource, with good and bad values.
_SETTINGS: Final[Mapping[int, Mapping[str, tuple[str | None, ...]]]] = {
    _TOPIC: {
        "retention.ms": ("1000", "-1", "-2", "x", None),
        "cleanup.policy": ("compact", "delete", "compact,delete", "x", ""),
        "max.message.bytes": ("1000", "-1", None),
        "message.timestamp.type": ("LogAppendTime", "CreateTime", "x"),
        "compression.type": ("zstd", "producer", "x"),
        "leader.replication.throttled.replicas": ("0:1", "*", "x"),
        "no.such.setting": ("1",),
        "": ("1",),
    },
    _GROUP: {
        "consumer.session.timeout.ms": ("50000", "1", "x", None),
        "consumer.heartbeat.interval.ms": ("6000", "-1"),
        "no.such.setting": ("1",),
    },
}
_SET, _DELETE, _APPEND, _SUBTRACT = range(4)


class Topics:
    """Three topics that come and go; quotas and SCRAM users."""

    def __init__(self, random: Random, versions: Versions) -> None:
        self._random = random
        self._choose = Choices(random, versions)
        self._ids: dict[str, Plain] = {}

    def begin(self) -> Iterable[Step]:
        return ()

    def next(self, is_busy: Callable[[int], bool]) -> Step:
        return self._choose.one(
            (6, self._create),
            (2, self._delete),
            (3, self._grow),
            (5, self._change),
            (2, self._replace),
            (5, self._describe_configs),
            (4, self._metadata),
            (4, self._describe_partitions),
            (1, self._list_resources),
            (3, self._change_quotas),
            (3, self._describe_quotas),
            (2, self._change_users),
            (2, self._describe_users),
        )()

    def learn(self, step: Step, answer: Plain) -> None:
        if isinstance(answer, dict) and step.api == ApiKey.METADATA:
            for topic in answer["topics"]:
                if isinstance(topic["topic_id"], Id) and topic["name"]:
                    self._ids[topic["name"]] = topic["topic_id"]

    # Topics

    def _name(self) -> str:
        return self._choose.one((9, self._random.choice(_NAMES)), (0.4, "@bad name"), (0.3, ""))

    def _create(self) -> Step:
        choose, random = self._choose, self._random
        topics = []
        for _ in range(random.choice([1, 1, 2])):
            assignments = choose.one(
                (6, [[1]]),
                (4, [[2], [3, 1]]),
                (2, [[1, 2, 3]]),
                (0.5, [[9]]),
                (0.5, [[1, 1]]),
                (0.5, []),
            )
            configs = [
                {"name": key, "value": random.choice(_SETTINGS[_TOPIC][key])}
                for key in choose.some(
                    list(_SETTINGS[_TOPIC]), [4, 4, 4, 4, 4, 1, 0.3, 0.1], at_most=1
                )
            ]
            topics.append(
                {
                    "name": self._name(),
                    "num_partitions": -1 if assignments else choose.one((3, 1), (1, 0)),
                    "replication_factor": -1 if assignments else choose.one((3, 3), (1, 4), (1, 0)),
                    "assignments": [
                        {"partition_index": index, "broker_ids": brokers}
                        for index, brokers in enumerate(assignments)
                    ],
                    "configs": configs if choose.seldom(3) else [],
                }
            )
        return draft(
            ApiKey.CREATE_TOPICS,
            choose.version(ApiKey.CREATE_TOPICS),
            topics=topics,
            timeout_ms=10_000,
            validate_only=choose.seldom(6),
        )

    def _delete(self) -> Step:
        choose = self._choose
        version = choose.version(ApiKey.DELETE_TOPICS)
        names = [self._name() for _ in range(self._random.choice([1, 1, 2]))]
        if version < 6:
            return draft(ApiKey.DELETE_TOPICS, version, topic_names=names, timeout_ms=10_000)
        topics = [
            {"name": None, "topic_id": self._ids[name]}
            if name in self._ids and choose.seldom(3)
            else {"name": name, "topic_id": ZERO_UUID}
            for name in names
        ]
        return draft(ApiKey.DELETE_TOPICS, version, topics=topics, timeout_ms=10_000)

    def _grow(self) -> Step:
        choose = self._choose
        topics = [
            {
                "name": self._name(),
                "count": choose.one((3, 2), (3, 3), (1, 1), (0.5, 0), (0.5, -1)),
                "assignments": [
                    {"broker_ids": [self._random.choice([1, 2, 3])]}
                    for _ in range(choose.one((5, 1), (2, 2)))
                ],
            }
            for _ in range(self._random.choice([1, 1, 2]))
        ]
        return draft(
            ApiKey.CREATE_PARTITIONS,
            choose.version(ApiKey.CREATE_PARTITIONS),
            topics=topics,
            timeout_ms=10_000,
            validate_only=choose.seldom(5),
        )

    def _metadata(self) -> Step:
        choose = self._choose
        version = choose.version(ApiKey.METADATA)
        topics: Plain = [{"name": name} for name in choose.some(_NAMES, [1, 1, 1], at_most=3)]
        if version >= 12 and self._ids and choose.seldom(3):
            topics = [{"topic_id": each, "name": None} for each in self._ids.values()]
        if version >= 1 and choose.seldom(3):
            topics = None
        return draft(ApiKey.METADATA, version, topics=topics, allow_auto_topic_creation=False)

    def _describe_partitions(self) -> Step:
        choose = self._choose
        names = sorted(choose.some(_NAMES, [1, 1, 1], at_most=3))
        cursor = {
            "topic_name": self._random.choice(_NAMES),
            "partition_index": choose.one((2, 0), (1, 1)),
        }
        return draft(
            ApiKey.DESCRIBE_TOPIC_PARTITIONS,
            0,
            topics=[{"name": name} for name in names],
            response_partition_limit=choose.one((3, 2000), (2, 1), (2, 2)),
            cursor=choose.one((3, None), (1, cursor)),
        )

    # Settings

    def _resource(self) -> tuple[int, str]:
        return self._choose.one((8, (_TOPIC, self._name())), (3, (_GROUP, "@g")))

    def _change(self) -> Step:
        choose, random = self._choose, self._random
        resources: dict[Plain, Plain] = {}
        for _ in range(random.choice([1, 1, 2])):
            kind, name = self._resource()
            keys = choose.some(list(_SETTINGS[kind]), [1] * len(_SETTINGS[kind]), at_most=1)
            resources[kind, name] = {
                "resource_type": kind,
                "resource_name": name,
                "configs": [
                    {
                        "name": key,
                        "config_operation": choose.one(
                            (9, _SET), (4, _DELETE), (2, _APPEND), (2, _SUBTRACT)
                        ),
                        "value": random.choice(_SETTINGS[kind][key]),
                    }
                    for key in dict.fromkeys(keys)
                ],
            }
        return draft(
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            choose.version(ApiKey.INCREMENTAL_ALTER_CONFIGS),
            resources=list(resources.values()),
            validate_only=choose.seldom(6),
        )

    def _replace(self) -> Step:
        choose, random = self._choose, self._random
        kind, name = self._resource()
        keys = choose.some(list(_SETTINGS[kind]), [1] * len(_SETTINGS[kind]), at_most=1)
        configs = [
            {"name": key, "value": random.choice(_SETTINGS[kind][key])}
            for key in dict.fromkeys(keys)
        ]
        resource = {"resource_type": kind, "resource_name": name, "configs": configs}
        version = choose.version(ApiKey.ALTER_CONFIGS)
        return draft(
            ApiKey.ALTER_CONFIGS, version, resources=[resource], validate_only=choose.seldom(6)
        )

    def _describe_configs(self) -> Step:
        choose = self._choose
        kind, name = self._resource()
        asked = {"resource_type": kind, "resource_name": name}
        keys: Plain = list(_SETTINGS[kind])
        if kind == _TOPIC:  # we have no settings of share groups and Streams groups
            keys = choose.one((2, None), (2, keys), (0.5, []))
        return draft(
            ApiKey.DESCRIBE_CONFIGS,
            choose.version(ApiKey.DESCRIBE_CONFIGS),
            resources=[{**asked, "configuration_keys": keys}],
            include_synonyms=choose.seldom(2),
        )

    def _list_resources(self) -> Step:
        version = self._choose.version(ApiKey.LIST_CONFIG_RESOURCES)
        more: dict[str, Plain] = {}
        if version >= 1:
            more["resource_types"] = [self._random.choice([_TOPIC, _GROUP])]
        return draft(ApiKey.LIST_CONFIG_RESOURCES, version, **more)

    # Quotas and users

    def _entity(self) -> list[Plain]:
        return self._choose.one(
            (4, [{"entity_type": "user", "entity_name": "@user"}]),
            (3, [{"entity_type": "client-id", "entity_name": "@client"}]),
            (
                2,
                [
                    {"entity_type": "user", "entity_name": "@user"},
                    {"entity_type": "client-id", "entity_name": "@client"},
                ],
            ),
            (0.5, [{"entity_type": "planet", "entity_name": "@earth"}]),
            (0.5, []),
        )

    def _change_quotas(self) -> Step:
        choose = self._choose
        ops = [
            {
                "key": choose.one(
                    (3, "producer_byte_rate"),
                    (3, "consumer_byte_rate"),
                    (1, "request_percentage"),
                    (0.5, "x"),
                ),
                "value": choose.one((4, 1000.0), (1, 2.5), (1, -1.0), (1, 0.0)),
                "remove": choose.seldom(3),
            }
        ]
        return draft(
            ApiKey.ALTER_CLIENT_QUOTAS,
            choose.version(ApiKey.ALTER_CLIENT_QUOTAS),
            entries=[{"entity": self._entity(), "ops": ops}],
            validate_only=choose.seldom(6),
        )

    def _describe_quotas(self) -> Step:
        choose = self._choose
        components = [
            {"entity_type": each["entity_type"], "match_type": 0, "match": each["entity_name"]}
            for each in self._entity()
        ]
        return draft(
            ApiKey.DESCRIBE_CLIENT_QUOTAS,
            choose.version(ApiKey.DESCRIBE_CLIENT_QUOTAS),
            components=components or [{"entity_type": "user", "match_type": 0, "match": "@user"}],
            strict=choose.seldom(2),
        )

    def _change_users(self) -> Step:
        choose = self._choose
        name = choose.one((5, "@user"), (3, "@other"), (0.3, ""))
        made = {
            "name": name,
            "mechanism": choose.one((4, 1), (4, 2), (0.5, 0), (0.5, 9)),
            "iterations": choose.one((6, 4096), (1, 10), (1, 1 << 20)),
            "salt": b"salt",
            "salted_password": b"x" * 32,
        }
        gone = {"name": name, "mechanism": choose.one((4, 1), (4, 2), (0.5, 0))}
        return draft(
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
            0,
            deletions=[gone] if choose.seldom(2) else [],
            upsertions=[made] if choose.seldom(2) else [],
        )

    def _describe_users(self) -> Step:
        users = [
            {"name": name}
            for name in self._choose.some(["@user", "@other", "@none"], [3, 2, 1], at_most=2)
        ]
        return draft(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, users=users or [{"name": "@user"}])
