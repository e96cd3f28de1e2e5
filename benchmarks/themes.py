"""Groups workloads into themes, with the clusters they run on."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.rivals.apache import ApacheRival
from benchmarks.rivals.embedded import EmbeddedRival
from benchmarks.rivals.processes import ProcessesRival
from benchmarks.rivals.rival import Rival
from benchmarks.rows import Workload
from benchmarks.workloads import basics, failover, groups, logs, security, transactions
from tests.java_tools.ports import free_ports

EMBEDDED: Final = "embedded"
PROCESSES: Final = "processes"
SHIPPED: Final = "shipped"
TUNED: Final = "tuned"
CLUSTERS: Final = (EMBEDDED, PROCESSES, SHIPPED, TUNED)
_SHARED_MEMORY: Final = Path("/dev/shm")
_ROOM_BYTES: Final = 2**31


@dataclass(frozen=True, slots=True, kw_only=True)
class Theme:
    """Rows that are measured on the same clusters.

    `first` runs once, right after the start; `repeated` runs in rounds that alternate between the
    clusters; `last` runs at the end. With `fresh`, every workload gets new clusters that keep their
    data through restarts; with `in_memory`, that data is in a memory file system, if there is one.
    With `secured`, clusters have the listeners and the authorizer of `workloads.security`.
    """

    name: str
    clusters: Sequence[str]
    brokers: int | None = None
    first: Sequence[Workload] = ()
    repeated: Sequence[Workload] = ()
    last: Sequence[Workload] = ()
    fresh: bool = False
    in_memory: bool = False
    config: Mapping[str, object] = field(default_factory=dict)
    secured: bool = False

    def make(self, cluster: str, *, brokers: int) -> Rival:
        count, config = self.brokers or brokers, self.config
        ports: dict[str, int] = {}
        if self.secured:
            config = {**config, **security.config()}
            names = security.LISTENERS
            ports = dict(zip(names, free_ports(len(names)), strict=True))
        parent = _memory_file_system() if self.in_memory else None
        match cluster:
            case "embedded":
                return EmbeddedRival(
                    brokers=count,
                    config=config,
                    parent=parent,
                    keeps_data=self.fresh,
                    ports=ports,
                )
            case "processes":
                return ProcessesRival(brokers=count, config=config, parent=parent)
            case "shipped":
                return ApacheRival(
                    "shipped", brokers=count, config=config, parent=parent, ports=ports
                )
            case _:
                return ApacheRival(
                    "tuned", brokers=count, config=config, parent=parent, ports=ports
                )


def _memory_file_system() -> Path | None:
    is_roomy = _SHARED_MEMORY.is_dir() and shutil.disk_usage(_SHARED_MEMORY).free >= _ROOM_BYTES
    return _SHARED_MEMORY if is_roomy else None


_IDLE: Final = Workload(name="idle", run=basics.idle)
_MEMORY: Final = Workload(name="memory", run=basics.memory_after_load)
_CONSUME: Final = Workload(name="consume", run=basics.consume)
_ACKS: Final = Workload(name="acks", run=basics.ack_latency)


def _produce(acks: str, compression: str) -> Workload:
    run = partial(basics.produce, acks=acks, compression=compression)
    return Workload(name=f"produce acks={acks} {compression}", run=run)


def _second_member(protocol: str) -> Workload:
    run = partial(groups.second_member, protocol=protocol)
    return Workload(name=f"second member ({protocol})", run=run)


THEMES: Final = (
    Theme(
        name="basics",
        clusters=(EMBEDDED, SHIPPED, TUNED),
        first=(_IDLE, Workload(name="new groups", run=basics.first_record_of_new_group)),
        repeated=(
            Workload(name="create topics", run=basics.create_topics),
            _produce("1", "none"),
            _produce("1", "lz4"),
            _produce("all", "none"),
            _produce("all", "lz4"),
            _CONSUME,
            _ACKS,
        ),
        last=(_MEMORY,),
    ),
    Theme(
        name="groups",
        clusters=(EMBEDDED, SHIPPED, TUNED),
        repeated=(
            _second_member("classic"),
            _second_member("consumer"),
            Workload(name="full groups", run=groups.full_groups),
            Workload(name="sync commits", run=groups.sync_commits),
            Workload(name="pipelined commits", run=groups.pipelined_commits),
            Workload(name="transactions", run=transactions.transactions),
            Workload(name="transactions with offsets", run=transactions.transactions_with_offsets),
        ),
        last=(_MEMORY,),
    ),
    Theme(
        name="replication",
        clusters=(EMBEDDED, PROCESSES, TUNED),
        brokers=3,
        first=(_IDLE,),
        repeated=(_produce("all", "none"), _CONSUME, _ACKS),
        last=(_MEMORY, Workload(name="failover", run=failover.failover)),
    ),
    Theme(
        name="logs",
        clusters=(EMBEDDED, TUNED),
        brokers=1,
        repeated=(
            Workload(name="fetch and recover", run=logs.fetch_and_recover),
            Workload(name="compact", run=logs.compact),
        ),
        fresh=True,
        config=logs.CONFIG,
    ),
    Theme(
        name="security",
        clusters=(EMBEDDED, TUNED),
        brokers=1,
        repeated=(
            _produce("all", "none"),
            Workload(name="produce over TLS", run=security.produce_over_tls),
            Workload(name="produce with ACLs", run=security.produce_with_permission),
            _CONSUME,
            Workload(name="consume over TLS", run=security.consume_over_tls),
        ),
        secured=True,
    ),
    Theme(
        name="partitions",
        clusters=(EMBEDDED, TUNED),
        brokers=1,
        repeated=(Workload(name="load partitions", run=logs.load_partitions),),
        fresh=True,
        in_memory=True,  # Kafka syncs several files per partition, which is not measured here
    ),
)
