"""Checks that must pass at the end of a round, whatever its steps were.

They make no exceptions: the lineage tells which records `restore()`, `reset()` and deletions
removed, and those must be gone.
"""

import hashlib
import os
import socket
import threading
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from embedkafka.wire.protocol.messages.core import MetadataResponse
from embedkafka.wire.records.batch import Batch, read_batches
from tests.chaos.clients import AUDIT, SINK, SOURCE
from tests.chaos.history import Fate
from tests.chaos.wire import ExactReader
from tests.presence import present

if TYPE_CHECKING:
    from tests.chaos.world import World

SHOWN = 4

PartitionInfo = MetadataResponse.Topic.Partition
Values = list[tuple[int, bytes]]
"""Pairs of offset and value."""
ByPartition = Mapping[int, Values]


# -- the logs on disk


def read_log(directory: Path) -> bytes:
    """The bytes of a partition's segments, concatenated.

    Reads again if the cleaner replaces one: it may still be busy when all clients have ended.
    """
    while True:
        try:
            return b"".join(path.read_bytes() for path in sorted(Path(directory).glob("*.log")))
        except FileNotFoundError:
            continue


def find_logs(root: Path, topic: str, partition: int) -> list[tuple[int, Path]]:
    """The directories of a partition, each with its broker."""
    return [
        (int(path.parent.name.split("-")[1]), path)  # broker-1, or broker-1-2 if it has several
        for path in sorted(Path(root).glob(f"broker-*/{topic}-{partition}"))
    ]


def check_replicas(
    world: "World",
    topic: str,
    partition: int,
    info: PartitionInfo,
    high_watermark: int,
    *,
    compacted: bool,
) -> list[Batch]:
    """All replicas are identical and end where the partition ends. Returns the leader's batches."""
    found = find_logs(world.cluster.log_dirs, topic, partition)
    logs = dict(found)
    where = f"{topic}-{partition}"
    brokers = sorted(broker for broker, _ in found)
    if brokers != sorted(info.replica_nodes):
        world.complain(f"{where} lies on brokers {brokers}, not {sorted(info.replica_nodes)}")
    contents: dict[int, object] = {}
    ends: dict[int, int] = {}
    for broker in info.replica_nodes:
        data = read_log(logs[broker]) if broker in logs else b""
        batches = list(read_batches(memoryview(data)))
        if sum(batch.size_in_bytes for batch in batches) != len(data):
            world.complain(f"{where} on broker {broker} has half a batch at its end")
        ends[broker] = batches[-1].next_offset if batches else 0
        contents[broker] = last_values(batches) if compacted else hashlib.sha256(data).hexdigest()
        check_batches(world, f"{where} on broker {broker}", batches, compacted)
    if any(end != high_watermark for end in ends.values()):
        # Compaction may remove the last records' batches, but never the end of the log.
        world.complain(f"{where} ends at {high_watermark}, its replicas at {ends}")
    first = contents.get(info.leader_id)
    different = [broker for broker, content in contents.items() if content != first]
    if different:
        world.complain(
            f"{where} differs on brokers {different} from leader {info.leader_id}; ends {ends}"
        )
    data = read_log(logs[info.leader_id]) if info.leader_id in logs else b""
    return list(read_batches(memoryview(data)))


def check_batches(world: "World", where: str, batches: Sequence[Batch], compacted: bool) -> None:
    """Offsets rise, a producer's batches follow each other, and its epochs never go back."""
    following: dict[tuple[int, int], int] = {}
    epochs: dict[int, int] = {}
    expected_offset: int | None = None
    for batch in batches:
        if not batch.is_valid():
            world.complain(f"{where}@{batch.base_offset} has a wrong checksum")
        if expected_offset is not None and not compacted and batch.base_offset != expected_offset:
            world.complain(f"{where} has {batch.base_offset} after {expected_offset - 1}")
        expected_offset = batch.next_offset
        if batch.producer_id < 0:
            continue
        producer = (batch.producer_id, batch.producer_epoch)
        latest = epochs.get(batch.producer_id, batch.producer_epoch)
        if batch.producer_epoch < latest:
            world.complain(f"{where}@{batch.base_offset}: {producer} after epoch {latest}")
        epochs[batch.producer_id] = max(latest, batch.producer_epoch)
        if batch.base_sequence < 0 or compacted:
            continue  # a marker, or the offsets that the transaction commits
        wanted = following.get(producer)
        if wanted is not None and batch.base_sequence != wanted:
            world.complain(
                f"{where}@{batch.base_offset}: sequence {batch.base_sequence} of producer "
                f"{producer} instead of {wanted}"
            )
        following[producer] = batch.last_sequence + 1


def last_values(batches: Sequence[Batch]) -> dict[bytes, bytes]:
    """Without deleted keys: a replica may still have the tombstone, or no longer."""
    found = {}
    for batch in batches:
        if not batch.is_control:
            for record in batch.records():
                key = bytes(record.key or b"")
                if record.value is None:
                    found.pop(key, None)
                else:
                    found[key] = bytes(record.value)
    return found


def values_of(batches: Sequence[Batch]) -> Values:
    """Offset and value of every record that is not a control record."""
    return [
        (record.offset, bytes(record.value or b""))
        for batch in batches
        if not batch.is_control
        for record in batch.records()
    ]


# -- records of producers


def check_acknowledged(
    world: "World", topic: str, partition: int, found: Values, *, ordered: set[str]
) -> None:
    """Each acknowledged record is there once, at its offset; each producer's are in order.

    `ordered` names the producers that repeat a record until it is acknowledged.
    """
    where = f"{topic}-{partition}"
    places = defaultdict(list)
    for offset, value in found:
        places[value].append(offset)
    lineage = world.history.lineages[topic]
    records = [r for r in world.history.records if (r.topic, r.partition) == (topic, partition)]
    wrong = Counter()
    for record in records:
        at = places.pop(record.value, [])
        fate = lineage.fate(record.sent, record.acked)
        if len(at) > 1:
            problem = f"is there {len(at)} times, at {at[:3]}"
        elif fate is Fate.KEPT and not at:
            problem = f"was acknowledged at {record.offset} and is not there"
        elif fate is Fate.GONE and at:
            problem = f"is at {at} though the cluster went back to before it"
        elif fate is Fate.KEPT and record.offset not in (None, at[0]):
            problem = f"was acknowledged at {record.offset} and is at {at[0]}"
        else:
            continue
        wrong[problem.partition(" ")[0]] += 1
        if wrong.total() <= SHOWN:
            world.complain(f"{where}: {record.value.decode()} {problem}")
    if wrong.total() > SHOWN:
        world.complain(f"{where}: {wrong.total()} records are wrong")
    for value in list(places)[:SHOWN]:
        world.complain(f"{where}: {value!r} was never sent")
    last = {}
    for offset, value in found:
        life, _, number = value.decode().rpartition(":")
        if life.partition("/")[0] in ordered and int(number) <= last.get(life, -1):
            world.complain(f"{where}@{offset}: {value.decode()} after {life}:{last[life]}")
            break
        last[life] = int(number)


def check_compacted(world: "World", topic: str, partition: int, batches: Sequence[Batch]) -> None:
    """Each key's last value is the last acknowledged one, or one sent later; or it is deleted."""
    found = last_values(batches)
    lineage = world.history.lineages[topic]
    sent = {r.value: r for r in world.history.records if r.topic == topic}
    wanted = {}
    for record in sent.values():  # in the order of sending
        if record.partition == partition:
            fate = lineage.fate(record.sent, record.acked)
            if fate is Fate.KEPT:
                wanted[record.key] = record
    for key, record in wanted.items():
        value = found.get(present(key))
        if value is None:
            is_right = any(
                later.is_tombstone and later.key == key and later.sent >= record.sent
                for later in sent.values()
            )
        else:
            holder = sent.get(value)
            is_right = holder is not None and holder.sent >= record.sent
        if not is_right:
            what = "deleted" if record.is_tombstone else f"{record.value!r}"
            world.complain(f"{topic}-{partition}: {key!r} is {value!r}, was acknowledged as {what}")
    for key, value in found.items():
        holder = sent.get(value)
        if holder is not None and lineage.fate(holder.sent, holder.acked) is Fate.GONE:
            world.complain(f"{topic}-{partition}: {key!r} is {value!r}, which must be gone")


def check_seen(world: "World", reader: ExactReader, partition: int, found: Values) -> None:
    """A consumer saw during the round exactly what is there now."""
    saw = reader.seen[partition]
    if saw != found[: len(saw)] or len(saw) < len(found):
        at = next((i for i, (a, b) in enumerate(zip(saw, found, strict=False)) if a != b), None)
        detail = "" if at is None else f": {saw[at]} is {found[at]} now"
        world.complain(
            f"a consumer of {reader.topic}-{partition} saw {len(saw)} records, there are "
            f"{len(found)}{detail}"
        )


# -- transactions


def check_copies(
    world: "World", source: ByPartition, sink: ByPartition, audit: ByPartition
) -> None:
    """Each source record was copied once, in order, and no transaction is visible in part.

    All arguments are by partition: the records of the source, and those that a read-committed
    consumer sees.
    """
    copied = Counter()
    for partition, copies in sink.items():
        wanted = [f"{offset} {value.decode()}" for offset, value in source[partition]]
        found = []
        for _, value in copies:
            txn, _, copy = value.decode().partition(" ")
            copied[txn] += 1
            found.append(copy)
        if found != wanted:
            pairs = enumerate(zip(found, wanted, strict=False))
            at = next((i for i, (a, b) in pairs if a != b), min(len(found), len(wanted)))
            world.complain(
                f"{SINK}-{partition} has {len(found)} copies of {len(wanted)} records of {SOURCE}; "
                f"at {at}: {found[at : at + 2]} instead of {wanted[at : at + 2]}"
            )
    counted = {}
    for _, value in audit[0]:
        txn, _, count = value.decode().partition(" ")
        if txn in counted:
            world.complain(f"{AUDIT} has {txn} twice")
        counted[txn] = int(count)
    if counted != copied:
        world.complain(f"transactions in part: {sorted(counted.items() ^ copied.items())[:6]}")
    check_fates(world, set(counted) | set(copied))


def check_fates(world: "World", seen: set[str]) -> None:
    """Committed transactions are visible; aborted, abandoned and undone ones are not."""
    lineage = world.history.cluster
    for txn in world.history.txns.values():
        fate = lineage.fate(txn.began, txn.confirmed)
        if fate is Fate.KEPT and txn.name not in seen:
            world.complain(f"{txn.name} was committed but is not there")
        elif fate is Fate.GONE and txn.name in seen:
            world.complain(f"{txn.name} is there though the cluster went back to before it")
        elif txn.aborted is not None and txn.name in seen:
            world.complain(f"{txn.name} was aborted but is there")
        elif txn.asked is None and txn.name in seen:
            world.complain(f"{txn.name} was never committed but is there")


# -- leftovers


def check_leftovers(world: "World", root: Path) -> None:
    """The cluster leaves no thread, port, directory or open file behind."""
    threads = [t.name for t in threading.enumerate() if t.name.startswith("ek-")]
    if threads:
        world.complain(f"threads are left: {threads}")
    for address in world.bootstrap.split(","):
        host, _, port = address.rpartition(":")
        with socket.socket() as probe:
            if probe.connect_ex((host, int(port))) == 0:
                world.complain(f"something still listens on {address}")
    left = [path.name for path in Path(root).glob("embedkafka-*")]
    if left:
        world.complain(f"directories are left: {left}")
    files = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{fd}")
        except OSError:
            continue
        if target.startswith(str(root)) and "/broker-" in target:
            files.append(target)
    if files:
        world.complain(f"files are still open: {files[:SHOWN]}")
