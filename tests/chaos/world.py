"""One round: a cluster, its load, the steps of a plan, and the checks at the end."""

import random
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.groups import ListGroupsRequest
from embedkafka.wire.protocol.messages.topics import (
    AlterPartitionReassignmentsRequest,
    AlterReplicaLogDirsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
)
from embedkafka.wire.protocol.wire_types import ZERO_UUID
from tests.chaos import checkers
from tests.chaos.checkers import PartitionInfo, Values
from tests.chaos.clients import (
    AUDIT,
    SINK,
    SOURCE,
    Client,
    Hangs,
    Member,
    Worker,
    bounded,
    hanging,
    make_consumer,
    make_transactional,
    recent_logs,
)
from tests.chaos.clusters import (
    OFFSETS_PARTITIONS,
    STATE_PARTITIONS,
    InProcess,
    Served,
    topic_specs,
)
from tests.chaos.history import History, Taken, Timeline, tick
from tests.chaos.plan import Plan, Step
from tests.chaos.uninvited import Intruder, Onlooker, Visitor
from tests.chaos.wire import (
    ExactProducer,
    ExactReader,
    OnRecord,
    Refused,
    Wire,
    visible,
)
from tests.presence import present

HEALING_S = 10.0
"""How long a healed cluster may take to be whole and to serve; when alone, it takes a second."""
STALLING_S = 15.0
"""How long stock clients may make no progress at the end: longer than a hanging call takes."""
PROGRESS_S = 60.0
"""How long stock clients may take at the end though they make progress."""
STEP_S = 45.0
COMMIT_S = 0.5
"""How long a step waits for a commit; a working cluster has several per second."""
WORKERS, MEMBERS = 2, 2
INTERNAL = ("__consumer_offsets", "__transaction_state")
NOT_THERE = (ErrorCode.REPLICA_NOT_AVAILABLE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
"""The answers of a broker that should move a replica which it does not have."""
IN_CLUSTER = frozenset(
    {"kill", "stop", "start", "restart", "pause", "resume", "kill_all", "stop_all"}
    | {"partition", "cut_zookeeper", "heal", "depose", "lose_answers", "fault"}
    | {"kill_process", "end_process"}
)
"""Steps that the cluster carries out alone."""


Probe = Callable[[], str | None]
"""Returns what is missing, or None."""
Ends = dict[str, dict[int, int]]
"""The high watermarks, by topic and partition."""


class World:
    """All parts of one round."""

    def __init__(self, plan: Plan, directory: Path) -> None:
        self.plan = plan
        self.timeline = Timeline(directory / "timeline.txt", f"seed {plan.seed}\n{plan}")
        self.topics = topic_specs(plan)
        self.history = History(self.topics)
        self._directory = directory
        self._rng = random.Random(plan.seed + 1)
        self._producers: list[ExactProducer] = []
        self._uninvited: list[Visitor | Onlooker | Intruder] = []
        self._readers: list[ExactReader] = []
        self._members: list[Member] = []
        self._workers: list[Worker] = []
        self._snapshots: list[tuple[Taken, int | None]] = []
        self._seen_by_group: dict[str, set[bytes]] = {}
        self._is_cut_short = False
        self._limbo: int | None = None  # the tick at which an unfinished deletion began
        self.note = self.timeline.note
        self.complain = self.timeline.complain
        kind: type[Served | InProcess] = Served if plan.served else InProcess
        self.cluster = kind(plan, directory, self.timeline)
        self.bootstrap = self.cluster.bootstrap
        self._wire = Wire(self.bootstrap, "observer")

    def now_ms(self) -> int:
        return int(time.time() * 1000)

    # -- the round

    def run(self) -> None:
        """Runs the whole round; the timeline collects the complaints."""
        try:
            self._begin_load()
            self._await_progress("before anything was done")
            for step in self.plan.steps:
                if step.at_commit and "copy" in self.plan.workloads:
                    self.history.await_commit(COMMIT_S)
                self.note(str(step))
                self._carry_out(step)
                if self._is_cut_short:
                    break
                threading.Event().wait(step.wait_s)
            self.note("recover")
            self._carry_out_bounded(self.cluster.recover)
            self._finish()
        except Exception as error:
            lines = "".join(traceback.format_exception(error))
            self.complain(f"the round failed: {lines}")
            self.note(self._describe())
        finally:
            self._end()

    def _describe(self) -> str:
        try:
            return bounded(self.cluster.describe)
        except Exception as error:
            return f"no description: {error!r}"

    def _end(self) -> None:
        self._check_failures()
        if self.timeline.complaints:
            self._save_client_logs()
        clients: list[Client | ExactProducer | ExactReader] = [
            *self._producers,
            *self._uninvited,
            *self._readers,
            *self._members,
            *self._workers,
        ]
        for client in clients:
            client.leave()
        self._wire.close()
        try:
            bounded(self.cluster.close, timeout_s=30)
        except Exception as error:
            lines = "".join(traceback.format_exception(error))
            self.complain(f"the cluster does not close: {lines}")
        checkers.check_leftovers(self, self._directory)

    def _save_client_logs(self) -> None:
        with (self._directory / "clients.txt").open("w") as file:
            for recent in recent_logs:
                file.write("\n".join([f"== {recent.name}", *recent.lines, ""]))

    # -- the load

    def _begin_load(self) -> None:
        plan = self.plan
        for load in plan.workloads:
            name = load.replace(" ", "-")
            if load in ("idempotent", "doomed"):
                topic = "orders" if load == "idempotent" else "doomed"
                for n in range(2):
                    self._add_producer(topic, f"{name}{n}")
            elif load == "plain":
                self._add_producer("orders", name, idempotent=False)
            elif load == "compacted":
                self._add_producer("compacted", name, keys=6)
            elif load == "copy":
                self._add_producer(SOURCE, "source0", pause_s=0.03)  # copying is slower
            elif load == "visitor":
                names = [topic for topic in self.topics if topic != "doomed"]
                self._uninvited.append(Visitor(self, names, self._new_rng()).start())
            elif load == "onlooker" and isinstance(self.cluster, InProcess):
                self._uninvited.append(Onlooker(self, self.cluster, self._new_rng()).start())
            elif load == "intruder" and isinstance(self.cluster, InProcess):
                self._uninvited.append(Intruder(self, self.cluster, self._new_rng()).start())
        if "orders" in self.topics and not any(p.topic == "orders" for p in self._producers):
            self._add_producer("orders", "orders0")
        self._begin_era()

    def _add_producer(self, topic: str, name: str, **settings: Any) -> None:
        count = self.topics[topic].partitions
        rng = self._new_rng()
        self._producers.append(ExactProducer(self, topic, count, name, rng, **settings).start())

    def _new_rng(self) -> random.Random:
        return random.Random(self._rng.getrandbits(32))

    def _begin_era(self) -> None:
        """Starts new consumers and workers, as after the cluster has gone back."""
        plan = self.plan
        for topic in ("orders", SOURCE):
            if topic in self.topics:
                self._add_reader(topic)
        if "copy" in plan.workloads:
            self._add_reader(SINK, committed=True, on_record=self._check_txn(SINK))
            self._add_reader(AUDIT, committed=True, on_record=self._check_txn(AUDIT))
            for n in range(WORKERS):
                rng = self._new_rng()
                worker = Worker(self, f"worker{n}", rng, "copiers", plan.copy_protocol)
                self._workers.append(worker.start())
        for load in plan.workloads:
            if load.endswith(" group"):
                protocol = load.partition(" ")[0]
                group = f"{protocol}-readers"
                seen = self._seen_by_group.setdefault(group, set())
                for n in range(MEMBERS):
                    rng = self._new_rng()
                    member = Member(self, f"{protocol}{n}", rng, "orders", group, protocol, seen)
                    self._members.append(member.start())

    def _add_reader(self, topic: str, **settings: Any) -> None:
        reader = ExactReader(self, topic, self.topics[topic].partitions, **settings)
        self._readers.append(reader.start())

    def _check_txn(self, topic: str) -> OnRecord:
        def check(partition: int, offset: int, value: bytes) -> None:
            name = value.decode().partition(" ")[0]
            txn = self.history.txns.get(name)
            where = f"{topic}-{partition}@{offset}"
            if txn is None or txn.asked is None:
                self.complain(f"{where} of {name} was seen before its commit was requested")
            hidden = self.history.find_open_before((topic, partition), offset)
            if hidden is not None:
                self.complain(f"{where} of {name} was seen although {hidden} before it is open")

        return check

    def _end_era(self) -> None:
        """Ends all clients that would act on a state about to be undone.

        Stock clients end first: if one repeated a commit afterwards, it would count, along with
        reads that were undone. Producers and readers keep working until then.
        """
        for client in (*self._members, *self._workers):
            client.leave()
        for client in (*self._members, *self._workers):
            client.stop()
        self.history.close_all()  # for hanging workers: the next worker aborts their transactions
        for reader in self._readers:
            reader.leave()
        self._readers, self._members, self._workers = [], [], []

    def _await_progress(self, when: str) -> None:
        """Waits until every producer has an acknowledgement from every partition."""
        for producer in self._producers:
            if not producer.await_acks(HEALING_S):
                raise AssertionError(f"no progress {when}")

    # -- steps

    def _carry_out(self, step: Step) -> None:
        act = getattr(self.cluster, step.act) if step.act in IN_CLUSTER else None
        self._carry_out_bounded(act or getattr(self, f"_{step.act}"), *step.arguments)

    def _carry_out_bounded(self, act: Callable[..., None], *arguments: object) -> None:
        try:
            bounded(act, *arguments, timeout_s=STEP_S)
        except Hangs:
            stacks = "".join(
                "".join(traceback.format_stack(frame)) + "\n"
                for frame in sys._current_frames().values()
            )
            self.note(stacks)
            raise AssertionError(f"{act.__name__} {arguments} hangs") from None

    def _in_process(self) -> InProcess:
        """For steps that plans of a served cluster never contain."""
        assert isinstance(self.cluster, InProcess)
        return self.cluster

    def _advance(self, seconds: int) -> None:
        self.history.close_all()
        self.cluster.advance(seconds)

    def _reopen(self) -> None:
        self._in_process().reopen()
        self._snapshots.clear()  # another cluster cannot restore them

    def _snapshot(self) -> None:
        taken = self.history.snapshot(self._in_process().kafka.snapshot)
        self._snapshots.append((taken, self._limbo))

    def _restore(self, number: int) -> None:
        self._end_era()
        if hanging:
            self._stay("restore")
            return
        taken, self._limbo = self._snapshots[number]
        self.history.restore(taken, self._in_process().kafka.restore)
        self._begin_again()

    def _reset(self) -> None:
        self._end_era()
        if hanging:
            self._stay("reset")
            return
        self.history.reset(self._in_process().kafka.reset)
        self._limbo = None
        self._begin_again()

    def _stay(self, act: str) -> None:
        """Keeps the state: a hanging client cannot be ended and would commit undone reads."""
        self.note(f"no {act}, and no further steps: {', '.join(hanging)} still hang")
        self._is_cut_short = True
        self._begin_era()

    def _begin_again(self) -> None:
        for producer in self._producers:
            producer.start_over()
        self._begin_era()

    def _delete_topic(self) -> None:
        """Deletes a topic while producers use it, and creates it again."""
        if "doomed" in self.topics and self._limbo is None and self.cluster.reachable():
            self._limbo = tick()
            if self._delete_doomed() is ErrorCode.NONE:
                self._create_doomed(must=True)

    def _delete_doomed(self) -> ErrorCode | None:
        """Returns the error code; None if there was no answer and the outcome is unknown."""
        doomed = DeleteTopicsRequest.Topic(name="doomed", topic_id=ZERO_UUID)
        try:
            request = DeleteTopicsRequest(topics=[doomed], timeout_ms=1_500)
            (answer,) = self._administer(request, 6).responses
        except OSError as error:
            self.note(f"no answer to the deletion: {error}")
            return None
        code = ErrorCode(answer.error_code)
        self.note(f"the deletion is answered with {code.name}")
        return code

    def _administer(self, request: object, version: int) -> Any:
        """Asks a running broker: a paused one would carry out the request at an unexpected time.

        It asks only one broker, once: if the answer is lost, a second answer would describe the
        result of the first request.
        """
        addresses = self.cluster.reachable()
        if not addresses:
            raise OSError("no broker is reachable")
        address = addresses[tick() % len(addresses)]
        return self._wire.call(address, request, version, 10_000)

    def _create_doomed(self, *, must: bool) -> bool:
        """With `must`, the name has been reported free."""
        spec = self.topics["doomed"]
        wanted = CreateTopicsRequest.Topic(
            name="doomed",
            num_partitions=spec.partitions,
            replication_factor=present(spec.replication),
            assignments=[],
            configs=[],
        )
        try:
            request = CreateTopicsRequest(topics=[wanted], timeout_ms=1_500)
            (answer,) = self._administer(request, 5).topics
        except OSError as error:
            self.note(f"no answer to the creation: {error}")
            return False
        code = ErrorCode(answer.error_code)
        self.note(f"the creation is answered with {code.name}")
        if code in (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT):
            self.history.deleted("doomed", present(self._limbo))
            self._limbo = None
            return True
        if must and code is ErrorCode.TOPIC_ALREADY_EXISTS:
            self.complain("a deletion was answered before the name was free")
        return False

    def _reassign(self, number: int, replicas: tuple[int, ...]) -> None:
        topics = sorted(self.topics)
        topic = topics[number % len(topics)]
        partition = number % self.topics[topic].partitions
        R = AlterPartitionReassignmentsRequest
        move = R.Topic.Partition(partition_index=partition, replicas=list(replicas))
        request = R(topics=[R.Topic(name=topic, partitions=[move])])
        self._ask_controller(f"reassignment of {topic}-{partition}", request, 0)

    def _move_logs(self, broker: int, numbers: tuple[int, ...]) -> None:
        """Moves all replicas of a broker to one log directory after the other, without waiting."""
        counts = {name: spec.partitions for name, spec in self.topics.items()}
        counts |= dict(zip(INTERNAL, (OFFSETS_PARTITIONS, STATE_PARTITIONS), strict=True))
        _Dir = AlterReplicaLogDirsRequest.LogDir
        topics = [_Dir.Topic(name=name, partitions=range(n)) for name, n in counts.items()]
        address = self.bootstrap.split(",")[broker - 1]
        for number in numbers:
            path = self._in_process().log_dir(broker, number)
            request = AlterReplicaLogDirsRequest(dirs=[_Dir(path=path, topics=topics)])
            try:
                answer = self._wire.call(address, request, 1, timeout_ms=3_000)
            except OSError as error:
                self.note(f"moves to {path} are not answered: {error}")
                return
            partitions = [each for topic in answer.results for each in topic.partitions]
            codes = {ErrorCode(partition.error_code) for partition in partitions}
            if not codes <= {ErrorCode.NONE, *NOT_THERE}:
                self.complain(f"broker {broker} answers moves to {path} with {codes}")

    def _elect(self) -> None:
        self._ask_controller("election", ElectLeadersRequest(topic_partitions=None), 1)

    def _ask_controller(self, what: str, request: object, version: int) -> None:
        try:
            address = self._wire.controller_address()
            answer = self._wire.call(address, request, version, timeout_ms=3_000)
            self.note(f"{what} is answered with {ErrorCode(answer.error_code).name}")
        except (OSError, Refused) as error:
            self.note(f"{what} is not answered: {error}")

    # -- the end

    def _finish(self) -> None:
        """Waits until everything is whole and every client makes progress, then compares it all."""
        began = time.monotonic()
        if self._limbo is not None:
            self._await("the deleted topic can be created again", self._end_limbo)
        self._await("every partition is led, and all its replicas are in sync", self._is_whole)
        self.note(f"whole again after {time.monotonic() - began:.3f} s")
        for producer in self._producers:
            producer.await_acks(HEALING_S)
        for producer in self._producers:
            producer.stop(HEALING_S)
        ends = self._await_ends()
        for reader in self._readers:
            if not reader.committed:
                reader.await_end(ends[reader.topic], HEALING_S)
        if "copy" in self.plan.workloads:
            self._await_copies(ends)
        self._await_groups(ends)
        for client in (*self._workers, *self._members):
            client.leave()
        for client in (*self._workers, *self._members):
            client.stop()
        self._end_transactions()
        self._await("every transaction is over", self._is_stable)
        self._await("every member has left or expired", self._has_no_members)
        self._await("every partition is whole at the end", self._is_whole)
        self._await("every replica is in its log directory", self._is_settled)
        self._compare(self._await_ends())

    def _check_failures(self) -> None:
        try:
            self.cluster.check()
        except Exception as failure:
            self.complain(str(failure))

    def _await(
        self, what: str, probe: Probe, timeout_s: float = HEALING_S, *, progress: bool = False
    ) -> bool:
        """Repeats `probe` until it returns None; returns whether it did in time.

        `probe` returns what is missing. With `progress`, the time counts from its last change, but
        ends after `PROGRESS_S`.
        """
        began = time.monotonic()
        deadline = began + timeout_s
        known: str | None = None
        while True:
            try:
                lacking = probe()
            except (OSError, Refused) as error:
                lacking = repr(error)
            if lacking is None:
                return True
            now = time.monotonic()
            if progress and lacking != known:
                deadline, known = min(now + timeout_s, began + PROGRESS_S), lacking
            if now > deadline:
                self.complain(f"not within {now - began:.0f} s: {what}; {lacking}")
                self.note(self._describe())
                return False
            threading.Event().wait(0.05)

    def _end_limbo(self) -> str | None:
        """Deletes the topic again, since the first deletion may have failed, and creates it."""
        code = self._delete_doomed()
        gone = code in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return None if gone and self._create_doomed(must=False) else f"the deletion says {code}"

    def _is_whole(self) -> str | None:
        """Every broker reports every partition as led and fully replicated."""
        for address in self.bootstrap.split(","):
            answer = self._wire.metadata_of(address)
            if len(answer.brokers) != self.plan.brokers:
                return f"{address} knows {len(answer.brokers)} brokers"
            names = {topic.name for topic in answer.topics}
            if not names >= set(self.topics):
                return f"{address} knows {sorted(map(present, names))}"
            for topic in answer.topics:
                for info in topic.partitions:
                    if info.error_code or set(info.isr_nodes) != set(info.replica_nodes):
                        return (
                            f"{address} says of {topic.name}-{info.partition_index}: leader "
                            f"{info.leader_id}, replicas {list(info.replica_nodes)}, in sync "
                            f"{list(info.isr_nodes)}, {ErrorCode(info.error_code).name}"
                        )
        request = ListPartitionReassignmentsRequest()
        moving = self._wire.call(self._wire.controller_address(), request, 0)
        if moving.error_code or moving.topics:
            return f"moves under way: {moving}"
        return None

    def _is_settled(self) -> str | None:
        return ", ".join(self.cluster.moving()) or None

    def _partitions(self) -> Iterator[tuple[str, int, PartitionInfo]]:
        """Topic, partition and metadata of every partition."""
        for topic in self._wire.metadata().topics:
            for info in topic.partitions:
                yield present(topic.name), info.partition_index, info

    def _await_ends(self) -> Ends:
        """The high watermark of every partition, by topic."""
        found: Ends = {}

        def ask() -> None:
            found.clear()
            for topic, partition, _ in self._partitions():
                end = self._wire.end_offset(topic, partition)
                found.setdefault(topic, {})[partition] = end

        if not self._await("every leader says where its partition ends", ask):
            raise AssertionError("nothing can be compared")
        return found

    def _await_copies(self, ends: Ends) -> None:
        (sink,) = [r for r in self._readers if r.topic == SINK]

        def lacking() -> str | None:
            counts = {p: len(seen) for p, seen in sink.seen.items()}
            short = {p: (counts[p], end) for p, end in ends[SOURCE].items() if counts[p] < end}
            return f"copies by partition: {short}" if short else None

        self._await("everything is copied", lacking, STALLING_S, progress=True)

    def _await_groups(self, ends: Ends) -> None:
        for group in self._seen_by_group:
            consumer = make_consumer(self, group, "classic", **{"group.id": group})

            def lacking(consumer: Consumer = consumer) -> str | None:
                wanted = ends["orders"]
                places = [TopicPartition("orders", p) for p in wanted]
                try:
                    found = bounded(lambda: consumer.committed(places, 3))
                except (Hangs, KafkaException) as error:
                    return repr(error)
                behind = {p.partition: p.offset for p in found if p.offset < wanted[p.partition]}
                return f"committed {behind} of {wanted}" if behind else None

            self._await(f"{group} has read everything", lacking, STALLING_S, progress=True)
            consumer.close()

    def _end_transactions(self) -> None:
        """Lets successors end the transactions that were abandoned last."""
        for n in range(WORKERS if "copy" in self.plan.workloads else 0):
            producer = make_transactional(self, f"worker{n}")

            def end(producer: Producer = producer) -> str | None:
                try:
                    bounded(producer.init_transactions, 3)
                except (Hangs, KafkaException) as error:
                    return repr(error)
                return None

            self._await(f"worker{n} has a last successor", end)

    def _is_stable(self) -> str | None:
        for topic, partition, _ in self._partitions():
            end = self._wire.end_offset(topic, partition)
            stable = self._wire.end_offset(topic, partition, committed=True)
            if stable != end:
                return f"{topic}-{partition} ends at {end} and is stable up to {stable}"
        return None

    def _has_no_members(self) -> str | None:
        """Until then, coordinators write; clients that gave up do not leave but expire."""
        for address in self.bootstrap.split(","):
            answer = self._wire.call(address, ListGroupsRequest(), 4)
            states = {group.group_id: group.group_state for group in answer.groups}
            if answer.error_code or not set(states.values()) <= {"Empty", "Dead"}:
                return f"{address} says of groups {states}, {ErrorCode(answer.error_code).name}"
        return None

    def _compare(self, ends: Ends) -> None:
        ordered = {p.name for p in self._producers if p.idempotent}
        sources: dict[int, Values] = {}
        readers = {reader.topic: reader for reader in self._readers}
        for topic, partition, info in list(self._partitions()):
            compacted = topic == "compacted"
            end = ends[topic][partition]
            batches = checkers.check_replicas(
                self, topic, partition, info, end, compacted=compacted
            )
            if topic not in self.topics:
                continue
            found = checkers.values_of(batches)
            if compacted:
                checkers.check_compacted(self, topic, partition, batches)
            elif topic in ("orders", "doomed", SOURCE):
                checkers.check_acknowledged(self, topic, partition, found, ordered=ordered)
            if topic in readers and not readers[topic].committed:
                readers[topic].stop()
                checkers.check_seen(self, readers[topic], partition, found)
            if topic == SOURCE:
                sources[partition] = found
            if topic == "orders":
                self._check_groups(found)
        if "copy" in self.plan.workloads:
            self._compare_copies(readers, sources, ends)

    def _check_groups(self, found: Values) -> None:
        for group, seen in self._seen_by_group.items():
            missed = [value for _, value in found if value not in seen]
            if missed:
                self.complain(f"{group} passed over {len(missed)} records, {missed[:3]}")

    def _compare_copies(
        self, readers: dict[str, ExactReader], sources: dict[int, Values], ends: Ends
    ) -> None:
        """Compares what readers saw during the round with what a consumer sees now."""
        now: dict[str, dict[int, Values]] = {}
        for topic in (SINK, AUDIT):
            reader = readers[topic]
            reader.await_end(ends[topic], HEALING_S)
            reader.stop()
            now[topic] = {p: self._read_committed(topic, p, end) for p, end in ends[topic].items()}
            for partition, found in now[topic].items():
                checkers.check_seen(self, reader, partition, found)
        checkers.check_copies(self, sources, now[SINK], now[AUDIT])

    def _read_committed(self, topic: str, partition: int, end: int) -> Values:
        found: Values = []
        offset = 0
        deadline = time.monotonic() + HEALING_S
        while offset < end and time.monotonic() < deadline:
            try:
                data = self._wire.fetch(topic, partition, offset, committed=True, max_wait_ms=100)
            except (OSError, Refused) as error:  # leadership may return to preferred replicas
                self.note(f"{topic}-{partition} is asked again after {error!r}")
                self._wire.forget(topic, partition)
                continue
            for at, value, following in visible(data, True):
                if at is not None and at >= offset:
                    found.append((at, present(value)))
                offset = max(offset, following)
        return found
