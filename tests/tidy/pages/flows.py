"""docs/flows.md and its pictures: how requests and failures travel through the code."""

# ruff: noqa: E501 - a step is one line

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from tests.tidy.pages.sequence import draw, parse

HEAD = """# Flows

`make docs` draws these figures from the descriptions in `tests/tidy/pages/flows.py`. Under each
step stands the module and the function that take it, and under each figure the modules' files in
`embedkafka/`; the tests check that they exist. [Kafka's internals, live](how-to/internals.md) shows the same on a running
cluster.
"""


class Flow(NamedTuple):
    name: str
    title: str
    about: str
    steps: str


FLOWS: Final = (
    Flow(
        "produce",
        "A produce request with acks=all",
        "Followers of the same process fetch on the leader's thread, so that the request often "
        "completes before it would have to wait. Others fetch over the wire, as in Kafka.",
        """
        client > processor: Produce, acks=all | wire.net.processor:Processor._serve
        processor > leader: decoded request | broker.apis.produce:produce
        leader: checks epoch and in-sync set | broker.replica.partition.partition:Partition.append_as_leader
        leader: validates, assigns offsets, writes | broker.log.log:Log.append_as_leader
        leader > follower: there is news | broker.replica.partition_notifier:PartitionNotifier.on_append
        follower > leader: fetch | broker.replica.following.fetcher:ReplicaFetcher.run_round
        follower: writes | broker.replica.partition.partition:Partition.append_as_follower
        follower > leader: fetch from the new end | broker.replica.partition.partition:Partition.fetch_as_follower
        = while an in-sync replica lacks the batch
        leader > purgatory: DelayedProduce | broker.replica.leader_writes:LeaderWrites.append_records
        purgatory waits: for the high watermark | broker.replica.delayed:DelayedProduce.try_complete
        follower > leader: fetch from the new end | broker.replica.fetch_service:FetchService.read_as_follower
        leader > purgatory: high watermark moved | broker.replica.partition_notifier:PartitionNotifier.on_high_watermark
        = as soon as all of them have it
        purgatory --> processor: on_done | broker.replica.delayed:DelayedProduce.on_complete
        processor --> client: base offset | broker.dispatch:RequestContext.reply
        """,
    ),
    Flow(
        "fetch",
        "A fetch that waits",
        "A consumer reads up to the high watermark, or up to the last stable offset if it is "
        "read-committed.",
        """
        consumer > processor: Fetch | wire.net.processor:Processor._serve
        processor > leader: partitions | broker.apis.fetch:fetch
        leader: reads up to the high watermark | broker.replica.fetch_service:FetchService.fetch_messages
        = fewer than min.bytes
        leader > purgatory: DelayedFetch | runtime.purgatory.purgatory:Purgatory.try_complete_else_watch
        purgatory > timer: in max.wait.ms | runtime.purgatory.timer:SystemTimer.add
        purgatory waits: under each partition's key | broker.replica.delayed:DelayedFetch.try_complete
        = the high watermark passes new records
        leader > purgatory: check the partition's key | runtime.purgatory.purgatory:Purgatory.check_and_complete
        = or the time is up
        timer --> purgatory: expired | runtime.purgatory.operation:DelayedOperation.expire
        = either way
        purgatory > leader: read again | broker.replica.delayed:DelayedFetch.on_complete
        purgatory --> processor: answers
        processor --> consumer: records, high watermark | broker.dispatch:RequestContext.reply
        """,
    ),
    Flow(
        "follower",
        "A follower truncates, then follows",
        "The log of a follower may end with records that the new leader never had. It cuts them "
        "off before it appends anything.",
        """
        controller > follower: LeaderAndIsr | broker.apis.control:leader_and_isr
        follower: leaves the old leader | broker.replica.leadership:Leadership._change
        follower > fetcher: follow, TRUNCATING | broker.replica.following.fetcher_loop:FetcherLoop.follow
        = the leader compares on every fetch, as since Kafka 2.7
        fetcher > leader: offset and last epoch | broker.replica.following.fetcher:ReplicaFetcher._request
        leader: finds where the logs part | broker.replica.partition.partition:_find_divergence
        leader --> fetcher: diverging epoch, its end | broker.replica.partition.partition:Partition._answer
        fetcher > follower: truncate | broker.replica.partition.partition:Partition.truncate_to
        = or the follower asks first: inter.broker.protocol.version below 2.7
        fetcher > leader: OffsetForLeaderEpoch | broker.replica.following.fetcher:ReplicaFetcher._compare_epochs
        leader --> fetcher: end of that epoch | broker.replica.partition.partition:Partition.end_offset_for_epoch
        fetcher > follower: truncate | broker.replica.following.truncation:truncation_for
        = the logs agree: FETCHING
        fetcher > leader: fetch from the log end | broker.replica.following.fetcher:ReplicaFetcher._fetch
        leader --> fetcher: records, high watermark
        fetcher > follower: append | broker.replica.partition.partition:Partition.append_as_follower
        fetcher > leader: fetch from the new end | broker.replica.following.fetcher:ReplicaFetcher.run_round
        leader: notes position, may grow ISR | broker.replica.partition.partition:Partition.fetch_as_follower
        """,
    ),
    Flow(
        "rebalance",
        "A classic group rebalances",
        "Every request and every timer is an event on the coordinator's loop. A join waits there, "
        "without a thread.",
        """
        member A > coordinator: Heartbeat | broker.coordinator.groups.classic.groups:ClassicGroups.heartbeat
        = B joins a stable group
        member B > coordinator: JoinGroup | broker.coordinator.groups.classic.groups:ClassicGroups.join
        coordinator: PreparingRebalance | broker.coordinator.groups.classic.groups:ClassicGroups._rebalance
        coordinator waits: for all members | broker.coordinator.groups.classic.groups:ClassicGroups._try_complete_join
        member A > coordinator: Heartbeat | broker.coordinator.groups.classic.groups:ClassicGroups.heartbeat
        coordinator --> member A: REBALANCE_IN_PROGRESS
        member A > coordinator: JoinGroup | broker.coordinator.groups.classic.groups:ClassicGroups.join
        = all have joined, or the rebalance timeout is over
        coordinator: CompletingRebalance | broker.coordinator.groups.classic.groups:ClassicGroups._complete_join
        coordinator --> member A: generation, all members
        coordinator --> member B: generation
        member B > coordinator: SyncGroup | broker.coordinator.groups.classic.groups:ClassicGroups.sync
        member A > coordinator: SyncGroup, assignment | broker.coordinator.groups.classic.groups:ClassicGroups.sync
        coordinator > offsets topic: group, acks=all | broker.coordinator.hosting:ShardHost.carry_out
        offsets topic --> coordinator: stored: Stable | broker.coordinator.groups.classic.groups:ClassicGroups.on_assignment_stored
        coordinator --> member A: its partitions
        coordinator --> member B: its partitions
        """,
    ),
    Flow(
        "commit",
        "A transaction commits",
        "The outcome is certain once PrepareCommit is stored. A coordinator that dies after that "
        "leaves the markers to the next one.",
        """
        producer > coordinator: EndTxn, commit | broker.coordinator.transactions.service:TxnService.end_txn
        coordinator: Ongoing to PrepareCommit | broker.coordinator.transactions.shard:TxnShard.end
        coordinator > transaction log: PrepareCommit | broker.coordinator.hosting:ShardHost.carry_out
        transaction log --> coordinator: stored | broker.coordinator.transactions.shard:Prepared
        coordinator --> producer: committed
        coordinator > leaders: WriteTxnMarkers | broker.coordinator.transactions.marker_delivery:MarkerDelivery.carry_out
        leaders: write markers, acks=all | broker.apis.txns:_write_marker
        leaders: last stable offset moves | broker.log.producers.state:ProducerState
        leaders > groups: its offsets | broker.apis.txns:_complete_offsets
        groups: offsets become visible | broker.coordinator.groups.shard:GroupShard.complete_transaction
        leaders --> coordinator: marked | broker.coordinator.transactions.marker_delivery:MarkerDelivery._take
        coordinator: PrepareCommit to CompleteCommit | broker.coordinator.transactions.shard:TxnShard.on_marked
        coordinator > transaction log: CompleteCommit | broker.coordinator.hosting:ShardHost.carry_out
        """,
    ),
    Flow(
        "failover",
        "The controller's broker dies",
        "The next controller trusts nothing but the store: it reads all of it, and tells every "
        "broker everything.",
        """
        old controller > ZooKeeper: session ends | zk.memory:MemorySession.expire
        ZooKeeper --> candidate: /controller is gone | broker.controller.events:event_of
        candidate > ZooKeeper: /controller, next epoch | broker.controller.core:ControllerCore._stand
        ZooKeeper --> candidate: the whole state | broker.controller.core:ControllerCore._take_over
        candidate > brokers: UpdateMetadata | broker.controller.sender:RequestSender.update_metadata
        candidate > brokers: LeaderAndIsr, full | broker.controller.core:ControllerCore._start_machines
        = partitions that the dead broker led
        candidate: elects from the ISR | broker.controller.election_strategies:elect
        candidate > ZooKeeper: leader and ISR, if unchanged | broker.controller.state_changes:StateChanges._elect
        candidate > brokers: LeaderAndIsr | broker.controller.channels:ControllerChannels.send
        brokers: lead or follow | broker.replica.leadership:Leadership._change
        brokers: answer from new metadata | broker.metadata_cache:MetadataCache.update
        = work that the old controller left
        candidate: resumes reassignments | broker.controller.reassignment:Reassignments.resume
        candidate: resumes deletions | broker.controller.topic_deletion:TopicDeletionManager.go_on
        = the old controller comes back
        old controller > ZooKeeper: write, old epoch | zk.kafka_zk:KafkaZk.update_partition_states
        ZooKeeper --> old controller: refused; it resigns | zk.kafka_zk:ControllerMoved
        """,
    ),
)


def render() -> str:
    return HEAD + "".join(
        f"\n## {flow.title}\n\n{flow.about}\n\n![{flow.title}: {_spoken(flow)}]"
        f"(assets/flows/{flow.name}.svg)\n\nIn {', '.join(_files(flow))}.\n"
        for flow in FLOWS
    )


def pictures(folder: Path) -> Mapping[Path, Callable[[], str]]:
    return {folder / f"{flow.name}.svg": partial(draw, flow.title, flow.steps) for flow in FLOWS}


def _files(flow: Flow) -> list[str]:
    modules = (step.code.partition(":")[0] for step in parse(flow.steps) if step.code)
    return [f"`{module.replace('.', '/')}.py`" for module in dict.fromkeys(modules)]


def _spoken(flow: Flow) -> str:
    """The steps for readers who do not see the picture."""
    return "; ".join(
        f"{step.source}{f' to {step.target}' if step.target != step.source else ''}, {step.text}"
        if step.source
        else step.text
        for step in parse(flow.steps)
    )
