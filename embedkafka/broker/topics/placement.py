"""Assigns the replicas of new partitions to brokers, exactly as Kafka does.

Without racks, first replicas go round-robin over the brokers from a random start; the others follow
at a shift that grows with every round. With racks, brokers are first ordered to alternate racks,
and a replica skips racks that already have one while another rack has none.
"""

from collections.abc import Iterable, Mapping, Sequence
from random import Random

from embedkafka.runtime.values import dataclass
from embedkafka.wire.protocol.errors import ApiError, ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRack:
    id: int
    rack: str | None = None


def assign_replicas(
    brokers: Sequence[BrokerRack],
    *,
    partitions: int,
    replication_factor: int,
    rng: Random,
    fixed_start: int = -1,
    first_partition: int = -1,
) -> dict[int, list[int]]:
    """Replicas by partition; `fixed_start` and `first_partition` continue an existing topic."""
    if partitions <= 0:
        raise ApiError(ErrorCode.INVALID_PARTITIONS, "Number of partitions must be larger than 0.")
    if replication_factor <= 0:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0."
        )
    if replication_factor > len(brokers):
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Replication factor: {replication_factor} larger than available brokers: "
            f"{len(brokers)}.",
        )
    racks = {b.id: b.rack for b in brokers if b.rack is not None}
    if racks and len(racks) < len(brokers):
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            "Not all brokers have rack information for replica rack aware assignment.",
        )
    order = rack_alternated(racks) if racks else [b.id for b in brokers]
    start = fixed_start if fixed_start >= 0 else rng.randrange(len(order))
    shift = fixed_start if fixed_start >= 0 else rng.randrange(len(order))
    first = max(0, first_partition)
    result: dict[int, list[int]] = {}
    for partition in range(first, first + partitions):
        if partition > 0 and partition % len(order) == 0:
            shift += 1
        leader = (partition + start) % len(order)
        if racks:
            result[partition] = _spread_over_racks(order, racks, leader, shift, replication_factor)
        else:
            followers = range(replication_factor - 1)
            result[partition] = [
                order[leader],
                *(order[_follower(leader, shift, n, len(order))] for n in followers),
            ]
    return result


def assign_new_partitions(
    existing: Mapping[int, Sequence[int]],
    brokers: Sequence[BrokerRack],
    *,
    partitions: int,
    rng: Random,
) -> dict[int, list[int]]:
    """Replicas of the partitions that grow a topic to `partitions`, continuing its pattern."""
    first_replicas = existing[0]
    start = next((i for i, b in enumerate(brokers) if b.id >= first_replicas[0]), 0)
    return assign_replicas(
        brokers,
        partitions=partitions - len(existing),
        replication_factor=len(first_replicas),
        rng=rng,
        fixed_start=start,
        first_partition=len(existing),
    )


def without_partial_racks(brokers: Iterable[BrokerRack]) -> list[BrokerRack]:
    """Brokers by id, without racks unless all of them have one (Kafka's safe mode)."""
    listed = sorted(brokers, key=lambda b: b.id)
    if all(b.rack is not None for b in listed):
        return listed
    return [BrokerRack(id=b.id) for b in listed]


def rack_alternated(racks: Mapping[int, str]) -> list[int]:
    """Brokers ordered so that neighbours are in different racks as long as possible."""
    by_rack: dict[str, list[int]] = {}
    for broker in sorted(racks):
        by_rack.setdefault(racks[broker], []).append(broker)
    columns = [by_rack[rack] for rack in sorted(by_rack)]
    depth = max(map(len, columns), default=0)
    return [column[row] for row in range(depth) for column in columns if row < len(column)]


def _spread_over_racks(
    order: Sequence[int], racks: Mapping[int, str], leader: int, shift: int, factor: int
) -> list[int]:
    rack_count = len(set(racks.values()))
    replicas = [order[leader]]
    used_racks = {racks[order[leader]]}
    step = 0
    while len(replicas) < factor:
        broker = order[_follower(leader, shift * rack_count, step, len(order))]
        step += 1
        rack_is_free = racks[broker] not in used_racks or len(used_racks) == rack_count
        if rack_is_free and broker not in replicas:
            replicas.append(broker)
            used_racks.add(racks[broker])
    return replicas


def _follower(leader: int, shift: int, index: int, brokers: int) -> int:
    return (leader + 1 + (shift + index) % (brokers - 1)) % brokers
