"""`kafka.report()`: what is wrong, the cluster and its last activity, to explain a failed test.

It reads brokers and partitions in place, and gets groups, transactions and records with requests to
the reachable brokers, as a client would.

Owner: none; it only reads.
Invariants: a broker that does not answer costs its part of the report, not the rest.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Final, TypeVar

from embedkafka.broker.broker import Broker
from embedkafka.broker.replica.partition.values import PartitionView
from embedkafka.cluster.brokers import Brokers
from embedkafka.cluster.clients.decoding import Decode, show_data
from embedkafka.cluster.clients.group_status import GroupStatus, ask_groups
from embedkafka.cluster.cluster_state import PartitionStatus
from embedkafka.cluster.reports.description import (
    Views,
    describe_brokers,
    describe_partitions,
    views_by_partition,
)
from embedkafka.cluster.reports.request_lines import (
    error_lines,
    groups_of,
    last_heartbeats,
    request_lines,
    span,
    topics_of,
)
from embedkafka.cluster.reports.troubles import Trouble, find_troubles, min_isr_of, trouble_lines
from embedkafka.cluster.reports.waits import find_waiting, waiting_lines
from embedkafka.cluster.request_log import Mark
from embedkafka.runtime.clock import real_age_ms
from embedkafka.runtime.ids import TopicPartition
from embedkafka.runtime.topic_names import (
    GROUP_METADATA_TOPIC,
    INTERNAL_TOPICS,
    TRANSACTION_STATE_TOPIC,
)
from embedkafka.runtime.values import dataclass, replace
from embedkafka.wire.net.client import BrokerClient
from embedkafka.wire.protocol.errors import ApiError
from embedkafka.wire.protocol.messages.core import FetchRequest
from embedkafka.wire.protocol.messages.transactions import (
    DescribeTransactionsRequest,
    ListTransactionsRequest,
)
from embedkafka.wire.records.batch import read_batches
from embedkafka.wire.records.record import Record

_CLIENT_ID: Final = "embedkafka-report"
_TIMEOUT_MS: Final = 2_000
_ONGOING: Final = "Ongoing"
_OPEN_STATES: Final = (_ONGOING, "PrepareCommit", "PrepareAbort")
_RECORDS: Final = 3  # of each partition
KEPT_RECORDS: Final = 20  # of each partition, for a page
_PARTITIONS: Final = 20
_WARNINGS: Final = 20
_REFUSALS: Final = 20
_CHANGES: Final = 20
_OTHERS: Final = 5  # topics
_CREATED: Final = frozenset({"NonExistentPartition", "NewPartition"})
_TEXT: Final = 60  # characters of a key or value
_FETCH_BYTES: Final = 1 << 20

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """A transaction that has begun and not ended."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    age_ms: int
    """How long it has been open, on the cluster's clock."""
    partitions: tuple[TopicPartition, ...]

    def __str__(self) -> str:
        return (
            f"{self.transactional_id}  {self.state} for {span(self.age_ms)}  producer "
            f"{self.producer_id} epoch {self.producer_epoch}  {' '.join(map(str, self.partitions))}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What only requests find, and who did not answer."""

    groups: Sequence[GroupStatus]
    transactions: Sequence[OpenTransaction]
    silent: Sequence[str]

    def troubles(self) -> Iterator[Trouble]:
        for transaction in self.transactions:
            yield Trouble(kind="open transaction", what=str(transaction))
        for group in self.groups:
            if group.total_lag:
                behind = [f"{each} {lag}" for each, lag in sorted(group.lag.items()) if lag]
                what = f"{group.group_id} is {group.total_lag} behind: {', '.join(behind)}"
                yield Trouble(kind="lag", what=what)
        for address in self.silent:
            yield Trouble(kind="silent broker", what=address)

    def only(self, groups: frozenset[str], topics: frozenset[str]) -> "Asked":
        """Without other groups, and without transactions that concern none of the topics."""
        return replace(
            self,
            groups=[group for group in self.groups if group.group_id in groups],
            transactions=[
                transaction
                for transaction in self.transactions
                if any(partition.topic in topics for partition in transaction.partitions)
            ],
        )


def describe(brokers: Brokers) -> str:
    """What is wrong, the brokers, and all partitions."""
    statuses, views = brokers.state.partitions(), views_by_partition(brokers.live())
    asked = ask(brokers, statuses, views)
    return "\n".join(_head(brokers, statuses, views, asked, None))


def report(brokers: Brokers, since: Mark | None, listener: str | None) -> str:
    """`describe`, and groups, transactions, records, errors, requests and warnings.

    After a mark, only of the topics that requests have named since, and only those requests. With a
    listener, only of what requests there have named.
    """
    from_number = 0 if since is None else since.number
    requests = brokers.requests_at(listener).since(from_number)  # before our own
    topics = None if since is None and listener is None else topics_of(requests)
    named = None if topics is None else topics | groups_of(requests)
    waiting = find_waiting(brokers)  # likewise
    statuses, views = brokers.state.partitions(), views_by_partition(brokers.live())
    asked = ask(brokers, statuses, views)
    if listener is not None and topics is not None:
        asked = asked.only(groups_of(seen for seen in requests if not seen.is_own), topics)
        views = {partition: view for partition, view in views.items() if partition.topic in topics}
    shown = {
        partition: view
        for partition, (view, led) in views.items()
        if led and (topics is None or partition.topic in topics)
    }
    age_ms = partial(real_age_ms, brokers.clock)
    others = [seen for seen in requests if not seen.is_own]
    told = (
        ("held back", held_back(brokers, views, asked.transactions)),
        ("state changes", _state_changes(brokers, statuses, from_number, topics)),
        ("waiting requests", waiting_lines(waiting, named)),
        ("groups", _groups(asked.groups, last_heartbeats(requests), age_ms)),
        ("open transactions", map(str, asked.transactions)),
        ("last records", _records(brokers, list(shown.values()))),
        ("not allowed", _refusals(brokers)),
        ("answers with errors", error_lines(others, brokers.auto_creation.is_refused)),
        ("last requests", request_lines(others, age_ms)),
        ("brokers' warnings", iter(brokers.warnings.since(from_number)[-_WARNINGS:])),
    )
    lines = _head(brokers, statuses, views, asked, topics)
    for title, found in told:
        if listed := [f"  {line}" for line in found]:
            lines += [f"{title}:", *listed]
    return "\n".join(lines)


def explain(brokers: Brokers, seconds: float) -> str:
    """What is wrong now, and the errors that clients got in the last seconds, if any."""
    seen = [
        each
        for each in brokers.request_log.since(0)
        if real_age_ms(brokers.clock, each.received_ms) <= seconds * 1000
    ]
    troubles = find_troubles(brokers, brokers.state.partitions())
    others = [each for each in seen if not each.is_own]
    errors = error_lines(others, brokers.auto_creation.is_refused)
    return "\n".join([*trouble_lines(troubles), *errors])


def ask(brokers: Brokers, statuses: Sequence[PartitionStatus], views: Views) -> Asked:
    """Groups and open transactions, from the brokers that coordinate them."""
    topics = {status.topic for status in statuses}
    ends = {partition: view.high_watermark for partition, (view, led) in views.items() if led}
    silent: dict[str, None] = {}
    groups: list[GroupStatus] = []
    transactions: list[OpenTransaction] = []
    if GROUP_METADATA_TOPIC in topics:
        groups = _ask_all(brokers, lambda client: ask_groups(client, ends), silent)
    if TRANSACTION_STATE_TOPIC in topics:
        transactions = open_transactions(brokers, silent)
    groups.sort(key=lambda group: group.group_id)
    return Asked(groups=groups, transactions=transactions, silent=list(silent))


def open_transactions(brokers: Brokers, silent: dict[str, None]) -> list[OpenTransaction]:
    """Those that every reachable broker coordinates; notes in `silent` who does not answer."""
    now_ms = brokers.clock.now_ms()
    return _ask_all(brokers, lambda client: _transactions(client, now_ms), silent)


def held_back(
    brokers: Brokers, views: Views, transactions: Sequence[OpenTransaction]
) -> Iterator[str]:
    """The replica or transaction that keeps consumers from a partition's last records."""
    for partition, (view, led) in views.items():
        if not led:
            continue
        if view.high_watermark < view.log_end_offset:
            behind = ", ".join(_behind(brokers, view)) or "the next fetch of its followers"
            at = f"{view.high_watermark} of {view.log_end_offset}"
            yield f"{partition} is committed up to {at}: held by {behind}"
        if view.last_stable_offset < view.high_watermark:
            holders = [
                f"transaction {each.transactional_id}, "
                + (
                    f"open for {span(each.age_ms)}"
                    if each.state == _ONGOING
                    else "whose markers are being written"
                )
                for each in transactions
                if partition in each.partitions
            ]
            at = f"{view.last_stable_offset} of {view.high_watermark}"
            yield f"{partition} is stable up to {at}: held by " + (
                ", ".join(holders) or "an open transaction"
            )


def _head(
    brokers: Brokers,
    statuses: Sequence[PartitionStatus],
    views: Views,
    asked: Asked,
    topics: frozenset[str] | None,
) -> list[str]:
    return [
        *trouble_lines([*find_troubles(brokers, statuses), *asked.troubles()]),
        *describe_brokers(brokers.all(), brokers.state.find_controller()),
        *describe_partitions(statuses, views, topics),
    ]


def _behind(brokers: Brokers, view: PartitionView) -> Iterator[str]:
    leader = brokers.find_live(view.leader)
    partition = None if leader is None else leader.replicas.hosted.find(view.topic_partition)
    if partition is None:
        return
    least = min(min_isr_of(brokers)(view.topic_partition.topic), len(view.replicas))
    if len(view.isr) < least:
        yield f"min.insync.replicas: {len(view.isr)} of {least} are in sync"
    behind_ms = partition.behind_ms()
    for replica, end in view.follower_end_offsets.items():
        if replica in view.isr and end < view.log_end_offset:
            since = f", behind for {span(behind_ms[replica])}" if replica in behind_ms else ""
            yield f"the replica on broker {replica}, which is at {end}{since}"


def _ask_all(
    brokers: Brokers, ask: Callable[[BrokerClient], Iterator[T]], silent: dict[str, None]
) -> list[T]:
    found: list[T] = []
    for broker in brokers.within_reach():
        found += _ask(broker, ask, silent)
    return found


def _ask(
    broker: Broker, ask: Callable[[BrokerClient], Iterator[T]], silent: dict[str, None]
) -> list[T]:
    client = broker.make_client(_CLIENT_ID, request_timeout_ms=_TIMEOUT_MS)
    try:
        return list(ask(client))
    except OSError as error:
        silent[f"{broker.address} does not answer: {error}"] = None
        return []
    finally:
        client.close()


def _state_changes(
    brokers: Brokers,
    statuses: Sequence[PartitionStatus],
    from_number: int,
    topics: frozenset[str] | None,
) -> Iterator[str]:
    """What controllers did to partitions that lost their leaders, or got other ones.

    If `topics` are named, others are counted in one line.
    """
    known = {(status.topic, status.partition) for status in statuses}
    found = [
        change
        for change in brokers.state_change_log.since(from_number)
        if change.replica is None
        and change.before not in _CREATED
        and (change.topic, change.partition) in known
        and (change.topic not in INTERNAL_TOPICS or (topics is not None and change.topic in topics))
    ]
    named = [change for change in found if topics is None or change.topic in topics]
    yield from map(str, named[-_CHANGES:])
    others = sorted({change.topic for change in found} - {change.topic for change in named})
    if others:
        more = ", ..." if len(others) > _OTHERS else ""
        yield f"and {len(found) - len(named)} of {', '.join(others[:_OTHERS])}{more}"


def _groups(
    groups: Sequence[GroupStatus],
    heartbeats: Mapping[str, float],
    age_ms: Callable[[float], float],
) -> Iterator[str]:
    for group in groups:
        yield f"{group.group_id}  {group.state}"
        for member in group.members:
            has = " ".join(map(str, member.partitions)) or "no partitions"
            beat = heartbeats.get(member.member_id)
            heard = "" if beat is None else f", last heard {span(age_ms(beat))} ago"
            yield f"  {member.client_id or '-'} at {member.host}: {has}{heard}"
        for partition, offset in sorted(group.committed.items()):
            lag = f", lag {group.lag[partition]}" if partition in group.lag else ""
            yield f"  {partition} committed {offset}{lag}"


def _transactions(client: BrokerClient, now_ms: int) -> Iterator[OpenTransaction]:
    wanted = ListTransactionsRequest(state_filters=_OPEN_STATES, producer_id_filters=[])
    found = [one.transactional_id for one in client.call(wanted, 0).transaction_states]
    if not found:
        return
    described = client.call(DescribeTransactionsRequest(transactional_ids=found), 0)
    for one in described.transaction_states:
        partitions = (TopicPartition(each.topic, n) for each in one.topics for n in each.partitions)
        yield OpenTransaction(
            transactional_id=one.transactional_id,
            state=one.transaction_state,
            producer_id=one.producer_id,
            producer_epoch=one.producer_epoch,
            age_ms=max(0, now_ms - one.transaction_start_time_ms),
            partitions=tuple(sorted(partitions)),
        )


def _records(brokers: Brokers, views: Sequence[PartitionView]) -> Iterator[str]:
    leaders = {broker.id: broker for broker in brokers.within_reach()}
    filled = (
        view
        for view in views
        if view.log_end_offset > view.log_start_offset
        and not view.topic_partition.topic.startswith("__")
        and view.leader in leaders
    )
    silent: dict[str, None] = {}
    for view in islice(filled, _PARTITIONS):
        decode = brokers.decoders.find(view.topic_partition.topic)
        ask = partial(_last_records, view=view, decode=decode)
        yield from _ask(leaders[view.leader], ask, silent)
    yield from silent


def _last_records(
    client: BrokerClient, view: PartitionView, decode: Decode | None
) -> Iterator[str]:
    """The last records below the high watermark, committed or not."""
    try:
        records = fetch_last(client, view, _RECORDS)
    except ApiError as error:
        yield f"{view.topic_partition} cannot be read: {error}"
        return
    for record in records:
        key = show_data(record.key, longest=_TEXT)
        value = show_data(record.value, decode, longest=_TEXT)
        yield f"{view.topic_partition} at {record.offset}: key {key}, value {value}"


def last_values(brokers: Brokers, topic: str) -> list[bytes]:
    """The different values among the last records of a topic."""
    found = (record.value for _, record in last_records(brokers, topic, KEPT_RECORDS))
    return list({bytes(value) for value in found if value is not None})


def last_records(brokers: Brokers, topic: str, count: int) -> Iterator[tuple[int, Record]]:
    """The last records of each partition that can be read, with its number."""
    reachable = {broker.id: broker for broker in brokers.within_reach()}
    for partition, (view, led) in views_by_partition(reachable.values()).items():
        if partition.topic != topic or not led or view.log_end_offset <= view.log_start_offset:
            continue
        client = reachable[view.leader].make_client(_CLIENT_ID, request_timeout_ms=_TIMEOUT_MS)
        try:
            for record in fetch_last(client, view, count):
                yield partition.partition, record
        except (OSError, ApiError):
            continue  # its partition has no records then
        finally:
            client.close()


def fetch_last(client: BrokerClient, view: PartitionView, count: int) -> list[Record]:
    """The last `count` records or fewer; raises `ApiError` if they cannot be decoded."""
    topic, partition = view.topic_partition
    first = max(view.log_start_offset, view.high_watermark - count)
    wanted = FetchRequest.Topic.Partition(
        partition=partition, fetch_offset=first, partition_max_bytes=_FETCH_BYTES
    )
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        topics=[FetchRequest.Topic(topic=topic, partitions=[wanted])],
        forgotten_topics_data=[],
    )
    (found,) = client.call(request, 11).responses[0].partitions
    records = [
        record
        for batch in read_batches(found.records or b"")
        if not batch.is_control
        for record in batch.records()
    ]
    return records[-count:]


def _refusals(brokers: Brokers) -> Iterator[str]:
    """Who may not do what, and how often it was tried."""
    found = Counter(
        str(refusal)
        for broker in brokers.live()
        if broker.authorizer is not None
        for refusal in broker.authorizer.refusals()
    )
    for text, times in islice(found.items(), _REFUSALS):
        yield text + (f"  {times} times" if times > 1 else "")
