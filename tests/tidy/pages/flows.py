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
        client > processor: Produce, acks=all | net.processor:Processor._serve
        processor > leader: decoded request | server.handlers.produce:produce
        leader: checks epoch and in-sync set | replica.partition.partition:Partition.append_as_leader
        leader: validates, assigns offsets, writes | log.log:Log.append_as_leader
        leader > follower: there is news | replica.waiters:Waiters.on_append
        follower > leader: fetch | replica.following.fetcher:ReplicaFetcher.run_round
        follower: writes | replica.partition.partition:Partition.append_as_follower
        follower > leader: fetch from the new end | replica.partition.partition:Partition.fetch_as_follower
        = while an in-sync replica lacks the batch
        leader > purgatory: DelayedProduce | replica.writes:Writes.append_records
        purgatory waits: for the high watermark | replica.delayed:DelayedProduce.try_complete
        follower > leader: fetch from the new end | replica.reads:Reads.read_as_follower
        leader > purgatory: high watermark moved | replica.waiters:Waiters.on_high_watermark
        = as soon as all of them have it
        purgatory --> processor: on_done | replica.delayed:DelayedProduce.on_complete
        processor --> client: base offset | server.dispatch:RequestContext.reply
        """,
    ),
    Flow(
        "fetch",
        "A fetch that waits",
        "A consumer reads up to the high watermark, or up to the last stable offset if it is "
        "read-committed.",
        """
        consumer > processor: Fetch | net.processor:Processor._serve
        processor > leader: partitions | server.handlers.fetch:fetch
        leader: reads up to the high watermark | replica.reads:Reads.fetch_messages
        = fewer than min.bytes
        leader > purgatory: DelayedFetch | purgatory.purgatory:Purgatory.try_complete_else_watch
        purgatory > timer: in max.wait.ms | purgatory.timer:SystemTimer.add
        purgatory waits: under each partition's key | replica.delayed:DelayedFetch.try_complete
        = the high watermark passes new records
        leader > purgatory: check the partition's key | purgatory.purgatory:Purgatory.check_and_complete
        = or the time is up
        timer --> purgatory: expired | purgatory.operation:DelayedOperation.expire
        = either way
        purgatory > leader: read again | replica.delayed:DelayedFetch.on_complete
        purgatory --> processor: answers
        processor --> consumer: records, high watermark | server.dispatch:RequestContext.reply
        """,
    ),
    Flow(
        "follower",
        "A follower truncates, then follows",
        "The log of a follower may end with records that the new leader never had. It cuts them "
        "off before it appends anything.",
        """
        controller > follower: LeaderAndIsr | server.handlers.control:leader_and_isr
        follower: leaves the old leader | replica.leadership:Leadership._change
        follower > fetcher: follow, TRUNCATING | replica.following.fetcher_loop:FetcherLoop.follow
        = the leader compares on every fetch, as since Kafka 2.7
        fetcher > leader: offset and last epoch | replica.following.fetcher:ReplicaFetcher._request
        leader: finds where the logs part | replica.partition.partition:_find_divergence
        leader --> fetcher: diverging epoch, its end | replica.partition.partition:Partition._answer
        fetcher > follower: truncate | replica.partition.partition:Partition.truncate_to
        = or the follower asks first: inter.broker.protocol.version below 2.7
        fetcher > leader: OffsetForLeaderEpoch | replica.following.fetcher:ReplicaFetcher._compare_epochs
        leader --> fetcher: end of that epoch | replica.partition.partition:Partition.end_offset_for_epoch
        fetcher > follower: truncate | replica.following.truncation:truncation_for
        = the logs agree: FETCHING
        fetcher > leader: fetch from the log end | replica.following.fetcher:ReplicaFetcher._fetch
        leader --> fetcher: records, high watermark
        fetcher > follower: append | replica.partition.partition:Partition.append_as_follower
        fetcher > leader: fetch from the new end | replica.following.fetcher:ReplicaFetcher.run_round
        leader: notes position, may grow ISR | replica.partition.partition:Partition.fetch_as_follower
        """,
    ),
    Flow(
        "rebalance",
        "A classic group rebalances",
        "Every request and every timer is an event on the coordinator's loop. A join waits there, "
        "without a thread.",
        """
        member A > coordinator: Heartbeat | group.classic.groups:ClassicGroups.heartbeat
        = B joins a stable group
        member B > coordinator: JoinGroup | group.classic.groups:ClassicGroups.join
        coordinator: PreparingRebalance | group.classic.groups:ClassicGroups._rebalance
        coordinator waits: for all members | group.classic.groups:ClassicGroups._try_complete_join
        member A > coordinator: Heartbeat | group.classic.groups:ClassicGroups.heartbeat
        coordinator --> member A: REBALANCE_IN_PROGRESS
        member A > coordinator: JoinGroup | group.classic.groups:ClassicGroups.join
        = all have joined, or the rebalance timeout is over
        coordinator: CompletingRebalance | group.classic.groups:ClassicGroups._complete_join
        coordinator --> member A: generation, all members
        coordinator --> member B: generation
        member B > coordinator: SyncGroup | group.classic.groups:ClassicGroups.sync
        member A > coordinator: SyncGroup, assignment | group.classic.groups:ClassicGroups.sync
        coordinator > offsets topic: group, acks=all | coordinator.hosting:ShardHost.carry_out
        offsets topic --> coordinator: stored: Stable | group.classic.groups:ClassicGroups.on_assignment_stored
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
        producer > coordinator: EndTxn, commit | txn.service:TxnService.end_txn
        coordinator: Ongoing to PrepareCommit | txn.shard:TxnShard.end
        coordinator > transaction log: PrepareCommit | coordinator.hosting:ShardHost.carry_out
        transaction log --> coordinator: stored | txn.shard:Prepared
        coordinator --> producer: committed
        coordinator > leaders: WriteTxnMarkers | txn.marker_delivery:MarkerDelivery.carry_out
        leaders: write markers, acks=all | server.handlers.txns:_write_marker
        leaders: last stable offset moves | log.producers.state:ProducerState
        leaders > groups: its offsets | server.handlers.txns:_complete_offsets
        groups: offsets become visible | group.shard:GroupShard.complete_transaction
        leaders --> coordinator: marked | txn.marker_delivery:MarkerDelivery._take
        coordinator: PrepareCommit to CompleteCommit | txn.shard:TxnShard.on_marked
        coordinator > transaction log: CompleteCommit | coordinator.hosting:ShardHost.carry_out
        """,
    ),
    Flow(
        "failover",
        "The controller's broker dies",
        "The next controller trusts nothing but the store: it reads all of it, and tells every "
        "broker everything.",
        """
        old controller > ZooKeeper: session ends | zk.memory:MemorySession.expire
        ZooKeeper --> candidate: /controller is gone | controller.events:event_of
        candidate > ZooKeeper: /controller, next epoch | controller.core:ControllerCore._stand
        ZooKeeper --> candidate: the whole state | controller.core:ControllerCore._take_over
        candidate > brokers: UpdateMetadata | controller.sender:RequestSender.update_metadata
        candidate > brokers: LeaderAndIsr, full | controller.core:ControllerCore._start_machines
        = partitions that the dead broker led
        candidate: elects from the ISR | controller.election_strategies:elect
        candidate > ZooKeeper: leader and ISR, if unchanged | controller.state_changes:StateChanges._elect
        candidate > brokers: LeaderAndIsr | controller.channels:ControllerChannels.send
        brokers: lead or follow | replica.leadership:Leadership._change
        brokers: answer from new metadata | server.metadata_cache:MetadataCache.update
        = work that the old controller left
        candidate: resumes reassignments | controller.reassignment:Reassignments.resume
        candidate: resumes deletions | controller.topic_deletion:TopicDeletionManager.go_on
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
