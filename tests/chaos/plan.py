"""The plan of a round, derived from its seed: the cluster, the load, and the steps.

The plan models the cluster and never looks at the real one, so a seed always gives the same plan.
Only the interleaving with the cluster's threads differs.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.chaos.switching import turn_s

WORKLOADS = (
    "idempotent",
    "plain",
    "compacted",
    "copy",
    "classic group",
    "consumer group",
    "doomed",
    "visitor",
    "intruder",
    "onlooker",
)

FAULTY_APIS = {
    # Each API with the errors that its clients must survive.
    "PRODUCE": ("NOT_LEADER_OR_FOLLOWER", "NOT_ENOUGH_REPLICAS", "REQUEST_TIMED_OUT"),
    "FETCH": ("NOT_LEADER_OR_FOLLOWER",),
    "LIST_OFFSETS": ("NOT_LEADER_OR_FOLLOWER",),
    "METADATA": (),
    "FIND_COORDINATOR": ("COORDINATOR_NOT_AVAILABLE",),
    "INIT_PRODUCER_ID": ("COORDINATOR_LOAD_IN_PROGRESS", "CONCURRENT_TRANSACTIONS"),
    "ADD_PARTITIONS_TO_TXN": ("NOT_COORDINATOR", "CONCURRENT_TRANSACTIONS"),
    "ADD_OFFSETS_TO_TXN": ("COORDINATOR_NOT_AVAILABLE", "CONCURRENT_TRANSACTIONS"),
    "TXN_OFFSET_COMMIT": ("NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS"),
    "END_TXN": ("NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "CONCURRENT_TRANSACTIONS"),
    "WRITE_TXN_MARKERS": ("NOT_LEADER_OR_FOLLOWER",),
    "JOIN_GROUP": ("COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR"),
    "SYNC_GROUP": ("REBALANCE_IN_PROGRESS", "NOT_COORDINATOR"),
    "HEARTBEAT": ("NOT_COORDINATOR", "REBALANCE_IN_PROGRESS"),
    "LEAVE_GROUP": ("NOT_COORDINATOR",),
    "OFFSET_COMMIT": ("NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS"),
    "OFFSET_FETCH": ("COORDINATOR_LOAD_IN_PROGRESS",),
    "CONSUMER_GROUP_HEARTBEAT": ("COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR"),
    "LEADER_AND_ISR": (),
    "UPDATE_METADATA": (),
    "STOP_REPLICA": (),
    "CONTROLLED_SHUTDOWN": (),
}
PATIENT_APIS = frozenset(
    {"LEADER_AND_ISR", "UPDATE_METADATA", "STOP_REPLICA", "CONTROLLED_SHUTDOWN"}
)
"""For these, the controller waits longer than a round lasts, as Kafka's does."""

LATE_MARKERS = "fault WRITE_TXN_MARKERS delay 900 5"
CASES = {
    # Plans that once found a fault, by name: brokers, loads and steps.
    "commits before a snapshot": (1, ("copy",), [LATE_MARKERS, "snapshot", "restore 0"] * 2),
    "commits before a death": (1, ("copy",), [LATE_MARKERS, "kill 1", "start 1"] * 2),
    "a deletion while a replica is dead": (3, ("doomed",), ["kill 3", "delete_topic"]),
    "a lost answer about in-sync replicas": (
        3,
        ("idempotent",),
        ["lose_answers 1 3", "lose_answers 2 3", "lose_answers 3 3", "kill 2", "start 2"],
    ),
    "a leader that missed its reassignment": (
        3,
        ("idempotent", "doomed", "onlooker"),
        ["pause 1", *(f"reassign {n} 2,3" for n in range(4)), "resume 1", "delete_topic", "reset"],
    ),
    "replicas that move between log directories": (
        3,
        ("copy", "idempotent"),
        [
            *("move_logs 1 2,1,2", "snapshot", "move_logs 2 1,2,1,2", "restore 0"),
            *("move_logs 3 2,1", "kill 3", "start 3", "move_logs 3 2,1,2"),
        ],
    ),
    "a deleted key whose replica moves": (
        1,
        ("compacted",),
        [*["move_logs 1 1,1"] * 3, *["move_logs 1 2,2"] * 8],  # most change nothing: time passes
    ),
    "visitors that would create the topics": (
        3,
        ("idempotent", "visitor"),
        ["snapshot", "reset", "restore 0", "reset", "restore 0"],
    ),
    "an intruder on every listener": (
        3,
        ("idempotent", "intruder"),
        ["kill 1", "start 1", "snapshot", "restore 0", "kill 2", "start 2"],
    ),
    "a process that is killed": (3, ("copy", "idempotent"), ["kill_process", "kill_process"]),
}
"""Each step waits for a commit, if there are any; a short pause follows."""


Argument = int | str | tuple[int, ...]


@dataclass(frozen=True)
class Step:
    """One `act` with `arguments`, right after a commit if `at_commit`; then a pause of `wait_s`."""

    act: str
    arguments: tuple[Argument, ...] = ()
    wait_s: float = 0.0
    at_commit: bool = False

    def __str__(self) -> str:
        words = [self.act.replace("_", " "), *(_words(value) for value in self.arguments)]
        return " ".join(words) + (", right after a commit" if self.at_commit else "")


def _words(value: Argument) -> str:
    if isinstance(value, tuple):
        return "{" + ",".join(map(str, value)) + "}"
    return str(value)


def _parse(text: str) -> Step:
    act, *words = text.split()
    return Step(act, tuple(map(_parse_argument, words)), 0.3, at_commit=True)


def _parse_argument(word: str) -> Argument:
    if "," in word:
        return tuple(map(int, word.split(",")))
    return int(word) if word.isdigit() else word


@dataclass
class _Model:
    """The cluster's state according to the plan."""

    dead: set[int] = field(default_factory=set)
    paused: set[int] = field(default_factory=set)
    cut: bool = False
    markers_are_late: bool = False
    """Whether a marker may wait at a broker.

    If its coordinator then loses the connection, or the clock jumps, the marker is sent again and
    the late one ends the producer's next transaction: in Apache Kafka too, for clients without
    version 2 of transactions, such as librdkafka. So neither is done after this.
    """

    def copy(self) -> "_Model":
        return _Model(set(self.dead), set(self.paused), self.cut, self.markers_are_late)


class Plan:
    """Everything that a seed decides."""

    def __init__(self, seed: int, case: str | None = None) -> None:
        rng = self._rng = random.Random(seed)
        self.seed = seed
        self.case = case
        brokers, loads, steps = CASES[case] if case else (None, None, ())
        self.served = rng.random() < 0.12 if case is None else "kill_process" in steps
        self.brokers = brokers or rng.choice([1, 1, 3, 3, 3, 5])
        self.io_threads = rng.choice([0, 2])
        self.partitions = rng.choice([1, 2, 4])
        self.min_isr = 1 if self.brokers == 1 else rng.choice([1, 2])
        self.data_dir = self.served or rng.random() < 0.4
        self.copy_protocol = rng.choice(["classic", "consumer"])
        self.workloads = loads or sorted(rng.sample(WORKLOADS, rng.randint(2, 4)))
        if case:
            self.log_dirs = 2 if any(step.startswith("move_logs") for step in steps) else 1
        else:
            self.log_dirs = 1 if self.served else rng.choice([1, 1, 2])
        if case:
            self.steps = [_parse(step) for step in steps]
        else:
            self.steps = list(self._served_steps() if self.served else self._steps())
        is_slow = "compacted" in self.workloads if case else rng.random() < 0.5
        self.moved_per_s = 2_000 if is_slow else 1_000_000
        """How many bytes go to another log directory: if few, compaction meets the move."""
        self.release = rng.choice(["3.9", "3.9", "2.6"])
        """Chooses how followers find out where they left their leader."""

    def __str__(self) -> str:
        kind = "served by another process" if self.served else "in this process"
        kept = ", with a data_dir" if self.data_dir else ""
        lines = [
            f"{self.brokers} brokers {kind}{kept}, num.io.threads={self.io_threads}, "
            f"{self.log_dirs} log directories, {self.moved_per_s} bytes/s between them, "
            f"{self.partitions} partitions, min.insync.replicas={self.min_isr}, "
            f"inter.broker.protocol.version={self.release}, turns of {turn_s(self.seed):g} s",
            f"load: {', '.join(self.workloads)} (copies by {self.copy_protocol} groups)",
        ]
        return "\n".join([*lines, *(f"  {step}" for step in self.steps)])

    def title(self) -> str:
        acts = self.case or ", ".join(step.act for step in self.steps)
        return f"{self.brokers} brokers{' served' if self.served else ''}: {acts}"

    # -- steps

    def _step(self, act: str, *arguments: Argument) -> Step:
        at_commit = "copy" in self.workloads and self._rng.random() < 0.5
        return Step(act, arguments, self._rng.choice([0.0, 0.05, 0.15, 0.4, 0.7]), at_commit)

    def _served_steps(self) -> Iterator[Step]:
        for _ in range(self._rng.randint(1, 3)):
            yield self._step(self._rng.choice(["kill_process", "kill_process", "end_process"]))

    def _steps(self) -> Iterator[Step]:
        model = _Model()
        snapshots: list[_Model] = []
        for _ in range(self._rng.randint(4, 9)):
            act, arguments = self._choose(model, snapshots)
            if act == "snapshot":
                snapshots.append(model.copy())
            elif act == "restore":
                (number,) = arguments
                assert isinstance(number, int)
                model = snapshots[number].copy()
                model.paused.clear()
                model.cut = False
            elif act == "reopen":
                snapshots.clear()
            self._note(model, act, arguments)
            yield self._step(act, *arguments)

    def _choose(self, model: _Model, snapshots: list[_Model]) -> tuple[str, tuple[Argument, ...]]:
        rng = self._rng
        everyone = range(1, self.brokers + 1)
        up = [b for b in everyone if b not in model.dead | model.paused]
        away = self.brokers - len(up) + model.cut
        most_away = {1: 1, 3: 1, 5: 2}[self.brokers]
        choices: list[tuple[int, str, tuple[Argument, ...]]] = []

        def offer(weight: int, act: str, *arguments: Argument) -> None:
            choices.append((weight, act, arguments))

        offer(4, "fault", *self._request_fault())
        if "copy" in self.workloads:  # committed transactions lack their markers for a while
            late = _parse(LATE_MARKERS)
            offer(3, late.act, *late.arguments)
        offer(3, "lose_answers", rng.choice(list(everyone)), rng.choice([1, 1, 3]))
        if not model.markers_are_late:
            offer(2, "advance", rng.choice([1, 10, 61]))
        offer(1, "depose")
        offer(2, "snapshot")
        if snapshots:
            offer(5, "restore", rng.randrange(len(snapshots)))
        offer(1, "reset")
        if model.cut:
            offer(6, "heal")
        for broker in sorted(model.paused):
            offer(3, "resume", broker)
            offer(1, "kill", broker)
        if not model.cut:
            for broker in sorted(model.dead):
                offer(4, "start", broker)
            offer(3, "kill_all", tuple(rng.sample(list(everyone), self.brokers)))
            offer(1, "stop_all", tuple(rng.sample(list(everyone), self.brokers)))
            if up:
                offer(2, "restart", rng.choice(up))
            cut_off = rng.sample(list(everyone), rng.randint(1, self.brokers))
            offer(3, "cut_zookeeper", tuple(sorted(cut_off)))
        if not model.cut and not model.dead and not model.paused:
            offer(3, "delete_topic")
            if self.data_dir:
                offer(3, "reopen")
        else:
            offer(1, "delete_topic")
        if up and self.log_dirs > 1:
            offer(9, "move_logs", rng.choice(up), rng.choice([(1, 2), (2, 1), (1, 2, 1, 2)]))
        if away < most_away and up:
            offer(3, "kill", rng.choice(up))
            offer(2, "stop", rng.choice(up))
            offer(3, "pause", rng.choice(up))
        if self.brokers > 1:
            offer(3, "reassign", *self._reassignment())
            offer(1, "elect")
            if away < most_away and not model.cut and not model.markers_are_late:
                minority = rng.sample(up, rng.randint(1, min(most_away - away, len(up))))
                offer(4, "partition", tuple(sorted(minority)))
        weights = [weight for weight, _, _ in choices]
        _, act, arguments = rng.choices(choices, weights)[0]
        return act, arguments

    def _note(self, model: _Model, act: str, arguments: Sequence[Any]) -> None:
        """Updates the model. Any: the act determines the types of its arguments."""
        if act in ("kill", "stop"):
            model.paused.discard(arguments[0])
            model.dead.add(arguments[0])
        elif act == "pause":
            model.paused.add(arguments[0])
        elif act in ("start", "resume"):
            model.dead.discard(arguments[0])
            model.paused.discard(arguments[0])
        elif act in ("partition", "cut_zookeeper"):
            model.cut = True
        elif act == "heal":
            model.cut = False
        elif act == "fault" and tuple(arguments[:2]) == ("WRITE_TXN_MARKERS", "delay"):
            model.markers_are_late = True
        elif act in ("kill_all", "stop_all", "reset", "reopen"):
            model.dead.clear()
            model.paused.clear()
            model.cut = False

    def _request_fault(self) -> tuple[str, str, str | int, int]:
        rng = self._rng
        api = rng.choice(list(FAULTY_APIS))
        kinds = ["delay", "drop_reply", "disconnect", "disconnect_handled"]
        kinds += ["error", "error"] if FAULTY_APIS[api] else []
        kind = rng.choice([k for k in kinds if k != "drop_reply" or api not in PATIENT_APIS])
        detail: str | int = ""
        if kind == "error":
            detail = rng.choice(FAULTY_APIS[api])
        elif kind == "delay":
            detail = rng.choice([50, 300, 900])
        return api, kind, detail, rng.choice([1, 1, 2, 5])

    def _reassignment(self) -> Any:
        rng = self._rng
        count = rng.randint(self.min_isr, min(3, self.brokers))
        return rng.randrange(100), tuple(rng.sample(range(1, self.brokers + 1), count))
