"""The payloads of Kafka's znodes: values, and the exact bytes of Apache Kafka 3.9.

Kafka encodes hash maps, so its JSON keys are in the order of their hashes. We keep that order
(fixed for fixed keys, computed with Java's string hash for data), so that a snapshot of our tree
equals a snapshot of Kafka's. Decoders accept any order, and every payload version that Kafka's
decoders accept.

Not here: paths (`paths`), reading and writing (`kafka_zk`).
"""

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote, unquote

from embedkafka.runtime.addresses import format_address, parse_address
from embedkafka.runtime.ids import TopicPartition, format_uuid, parse_uuid
from embedkafka.runtime.values import dataclass, field, replace

RECOVERED: Final = 0
RECOVERING: Final = 1
"""`leader_recovery_state` after an unclean election (KIP-704)."""

DEFAULT_ENTITY: Final = "<default>"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerEndpoint:
    """The address that a broker advertises for one listener."""

    host: str
    port: int
    listener: str = "PLAINTEXT"
    security_protocol: str = "PLAINTEXT"

    def __str__(self) -> str:
        return f"{self.listener}://{format_address(self.host, self.port)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerInfo:
    """A broker's registration in `/brokers/ids`."""

    id: int
    endpoints: tuple[BrokerEndpoint, ...]
    rack: str | None = None
    jmx_port: int = -1
    features: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def endpoint(self, listener: str) -> BrokerEndpoint:
        """The address of `listener`; raises if the broker has no such listener."""
        for endpoint in self.endpoints:
            if endpoint.listener == listener:
                return endpoint
        raise KeyError(f"broker {self.id} has no listener {listener}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaAssignment:
    """The replicas of a partition; during a reassignment, the old and the new ones."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def origin(self) -> tuple[int, ...]:
        return tuple(r for r in self.replicas if r not in self.adding)

    @property
    def target(self) -> tuple[int, ...]:
        return tuple(r for r in self.replicas if r not in self.removing)

    @property
    def is_being_reassigned(self) -> bool:
        return bool(self.adding or self.removing)

    def reassign_to(self, target: Sequence[int]) -> "ReplicaAssignment":
        """The assignment on the way to `target`, whose replicas come first, in their order."""
        origin = self.origin
        everyone = tuple(dict.fromkeys((*target, *origin)))
        return ReplicaAssignment(
            replicas=everyone,
            adding=tuple(r for r in everyone if r not in origin),
            removing=tuple(r for r in everyone if r not in target),
        )

    def without(self, replica: int) -> "ReplicaAssignment":
        return ReplicaAssignment(
            replicas=tuple(r for r in self.replicas if r != replica),
            adding=tuple(r for r in self.adding if r != replica),
            removing=tuple(r for r in self.removing if r != replica),
        )


NO_ASSIGNMENT: Final = ReplicaAssignment(replicas=())


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicAssignment:
    """The payload of `/brokers/topics/<topic>`."""

    topic: str
    topic_id: uuid.UUID | None
    partitions: Mapping[int, ReplicaAssignment]

    def by_topic_partition(self) -> dict[TopicPartition, ReplicaAssignment]:
        return {TopicPartition(self.topic, p): a for p, a in self.partitions.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAndIsr:
    """A partition's `state` znode: its leader, its ISR, and the controller that wrote it.

    `zk_version` is the znode's version, which Kafka also calls the partition epoch.
    """

    leader: int
    isr: tuple[int, ...]
    leader_epoch: int = 0
    controller_epoch: int = 0
    leader_recovery_state: int = RECOVERED
    zk_version: int = 0

    def with_leader(self, leader: int, isr: Iterable[int] | None = None) -> "LeaderAndIsr":
        """The state under `leader` in the next leader epoch; without `isr` the ISR stays."""
        return replace(
            self,
            leader=leader,
            isr=self.isr if isr is None else tuple(isr),
            leader_epoch=self.leader_epoch + 1,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdBlock:
    """Producer ids that one broker may hand out, both ends included."""

    broker_id: int
    first: int
    last: int


# --- brokers and controller ---------------------------------------------------------------------


def encode_broker(info: BrokerInfo, timestamp_ms: int) -> bytes:
    """Version 5, with a top-level host and port for clients that only know PLAINTEXT."""
    plain = next((e for e in info.endpoints if e.security_protocol == "PLAINTEXT"), None)
    rack = {} if info.rack is None else {"rack": info.rack}
    return _dump(
        {
            "features": info.features,
            "listener_security_protocol_map": {
                e.listener: e.security_protocol for e in info.endpoints
            },
            "endpoints": [str(e) for e in info.endpoints],
            **rack,
            "jmx_port": info.jmx_port,
            "port": plain.port if plain else -1,
            "host": plain.host if plain else None,
            "version": 5,
            "timestamp": str(timestamp_ms),
        }
    )


def decode_broker(broker_id: int, data: bytes) -> BrokerInfo:
    """Versions 1 to 5."""
    js = json.loads(data)
    if js["version"] == 1:
        endpoints = [BrokerEndpoint(host=js["host"], port=js["port"])]
    else:
        protocols = js.get("listener_security_protocol_map", {})
        endpoints = [_endpoint(text, protocols) for text in js["endpoints"]]
    return BrokerInfo(
        id=broker_id,
        endpoints=tuple(endpoints),
        rack=js.get("rack"),
        jmx_port=js["jmx_port"],
        features=js.get("features", {}),
    )


def _endpoint(text: str, protocols: Mapping[str, str]) -> BrokerEndpoint:
    listener, _, address = text.partition("://")
    host, port = parse_address(address)
    return BrokerEndpoint(
        host=host,
        port=port,
        listener=listener,
        security_protocol=protocols.get(listener, listener),
    )


def encode_controller(broker_id: int, timestamp_ms: int) -> bytes:
    return (
        f'{{"version":2,"brokerid":{broker_id},"timestamp":"{timestamp_ms}",'
        f'"kraftControllerEpoch":-1}}'
    ).encode()


def decode_controller(data: bytes) -> int:
    return int(json.loads(data)["brokerid"])


NO_FEATURES: Final = b'{"features":{},"version":2,"status":1}'
"""`/feature`, version 2: versioning enabled, no feature finalized."""


def encode_cluster_id(cluster_id: str) -> bytes:
    return _dump({"version": "1", "id": cluster_id})


def decode_cluster_id(data: bytes) -> str:
    return str(json.loads(data)["id"])


# --- topics and partitions ----------------------------------------------------------------------


def encode_topic(topic_id: uuid.UUID | None, partitions: Mapping[int, ReplicaAssignment]) -> bytes:
    """Version 3: the topic id, and replicas being added and removed."""
    order = _scala_order([str(p) for p in partitions])
    replicas = {p: partitions[int(p)].replicas for p in order}
    moving = [p for p in order if partitions[int(p)].is_being_reassigned]
    adding = {p: partitions[int(p)].adding for p in moving if partitions[int(p)].adding}
    removing = {p: partitions[int(p)].removing for p in moving if partitions[int(p)].removing}
    named = {} if topic_id is None else {"topic_id": format_uuid(topic_id)}
    return _dump(
        {
            "partitions": replicas,
            **named,
            "adding_replicas": adding,
            "removing_replicas": removing,
            "version": 3,
        }
    )


def decode_topic(topic: str, data: bytes) -> TopicAssignment:
    """Versions 1 to 3."""
    js = json.loads(data)
    adding, removing = js.get("adding_replicas", {}), js.get("removing_replicas", {})
    topic_id = js.get("topic_id")
    return TopicAssignment(
        topic=topic,
        topic_id=None if topic_id is None else parse_uuid(topic_id),
        partitions={
            int(p): ReplicaAssignment(
                replicas=tuple(replicas),
                adding=tuple(adding.get(p, ())),
                removing=tuple(removing.get(p, ())),
            )
            for p, replicas in js["partitions"].items()
        },
    )


def encode_partition_state(state: LeaderAndIsr) -> bytes:
    recovery = ""
    if state.leader_recovery_state != RECOVERED:
        recovery = f',"leader_recovery_state":{state.leader_recovery_state}'
    isr = ",".join(map(str, state.isr))
    return (
        f'{{"controller_epoch":{state.controller_epoch},"leader":{state.leader},"version":1,'
        f'"leader_epoch":{state.leader_epoch},"isr":[{isr}]{recovery}}}'
    ).encode()


def decode_partition_state(data: bytes, zk_version: int) -> LeaderAndIsr:
    js = json.loads(data)
    return LeaderAndIsr(
        leader=js["leader"],
        isr=tuple(js["isr"]),
        leader_epoch=js["leader_epoch"],
        controller_epoch=js["controller_epoch"],
        leader_recovery_state=js.get("leader_recovery_state", RECOVERED),
        zk_version=zk_version,
    )


# --- settings -----------------------------------------------------------------------------------


def encode_config(config: Mapping[str, str]) -> bytes:
    order = _java_order(list(config))
    return _dump({"version": 1, "config": {key: config[key] for key in order}})


def decode_config(data: bytes) -> dict[str, str]:
    if not data:
        return {}
    config = json.loads(data).get("config", {})
    return {key: str(value) for key, value in config.items()}


def encode_config_change(entity_path: str) -> bytes:
    return _dump({"version": 2, "entity_path": entity_path})


def decode_config_change(data: bytes) -> str:
    """The sanitized entity path, such as `topics/orders`; version 1 named type and entity."""
    js = json.loads(data)
    if js["version"] == 1:
        return f"{js['entity_type']}/{js['entity_name']}"
    return str(js["entity_path"])


def sanitize(name: str) -> str:
    """A user, client or group name as Kafka puts it into a path; inverse: `desanitize`."""
    return quote(name, safe="").replace("~", "%7E")


def desanitize(name: str) -> str:
    return unquote(name)


# --- notifications and admin requests -----------------------------------------------------------


def encode_partitions(partitions: Iterable[TopicPartition]) -> bytes:
    """ISR change notifications and preferred replica elections share this form."""
    listed = [{"topic": tp.topic, "partition": tp.partition} for tp in partitions]
    return _dump({"version": 1, "partitions": listed})


def decode_partitions(data: bytes) -> list[TopicPartition]:
    return [TopicPartition(p["topic"], p["partition"]) for p in json.loads(data)["partitions"]]


def encode_reassignment(reassignment: Mapping[TopicPartition, Sequence[int]]) -> bytes:
    listed = [
        {"topic": tp.topic, "partition": tp.partition, "replicas": list(replicas)}
        for tp, replicas in reassignment.items()
    ]
    return _dump({"version": 1, "partitions": listed})


def decode_reassignment(data: bytes) -> dict[TopicPartition, tuple[int, ...]]:
    return {
        TopicPartition(p["topic"], p["partition"]): tuple(p["replicas"])
        for p in json.loads(data)["partitions"]
    }


def encode_log_dir_event(broker_id: int) -> bytes:
    return _dump({"version": 1, "broker": broker_id, "event": 1})


def decode_log_dir_event(data: bytes) -> int:
    return int(json.loads(data)["broker"])


def encode_producer_id_block(block: ProducerIdBlock) -> bytes:
    return _dump(
        {
            "version": 1,
            "broker": block.broker_id,
            "block_start": str(block.first),
            "block_end": str(block.last),
        }
    )


def decode_producer_id_block(data: bytes) -> ProducerIdBlock:
    js = json.loads(data)
    return ProducerIdBlock(
        broker_id=js["broker"], first=int(js["block_start"]), last=int(js["block_end"])
    )


# --- Java's forms -------------------------------------------------------------------------------


def _scala_order(keys: Sequence[str]) -> list[str]:
    """The iteration order of a Scala `mutable.HashMap` that grew to hold `keys`."""
    buckets = _bucket_count(len(keys))
    hashes = {key: _spread_hash(key) for key in keys}
    return sorted(keys, key=lambda key: (hashes[key] % buckets, hashes[key]))


def _java_order(keys: Sequence[str]) -> list[str]:
    """The iteration order of a `java.util.Properties` into which `keys` were put in turn."""
    buckets = _bucket_count(len(keys))
    return sorted(keys, key=lambda key: _spread_hash(key) % buckets)


def _bucket_count(keys: int) -> int:
    """The number of buckets: both maps start with sixteen and double at three quarters."""
    buckets = 16
    while keys >= buckets * 3 // 4:
        buckets *= 2
    return buckets


def _spread_hash(text: str) -> int:
    """`String.hashCode` with its halves mixed, as both maps do it, as a signed number."""
    value = 0
    for char in text:
        value = (31 * value + ord(char)) & 0xFFFFFFFF
    value ^= value >> 16
    return value - (1 << 32) if value >> 31 else value


def _dump(value: Mapping[str, Any]) -> bytes:  # Any: JSON has no better type
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
