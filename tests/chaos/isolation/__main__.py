"""Runs random tests in isolated blocks, and compares each cluster before and after every block.

    python -m tests.chaos.isolation --rounds 100 --seed 7
    python -m tests.chaos.isolation --seed 7            one cluster
    python -m tests.chaos.isolation --seed 7 --plan     prints its blocks

A seed fixes the cluster and the moves of its blocks, but not how threads are scheduled.
"""

import argparse
import faulthandler
import logging
import random
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from embedkafka.runtime.topic_names import INTERNAL_TOPICS
from tests.chaos.isolation.moves import MOVES
from tests.chaos.isolation.seen import (
    Seen,
    broken_services,
    complaints,
    look,
    lost_records,
    unhealthy,
)
from tests.chaos.isolation.world import KEPT_GROUP, Shape, World
from tests.chaos.switching import turn_s, turns_of

HANGS_S = 300
BLOCKS = 4
SLOW_S = 25.0
"""No block takes that long to be put right: waits of clusters end after thirty seconds."""

Block = Sequence[tuple[str, int]]
"""Moves, each with its seed."""


class Plan:
    """The cluster and the blocks of a seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        rng = random.Random(f"isolation {seed}")
        self.shape = Shape(rng)
        self.preparation = rng.getrandbits(32)
        names, weights = list(MOVES), [weight for weight, _ in MOVES.values()]
        self.blocks: list[Block] = [
            [
                (name, rng.getrandbits(32))
                for name in rng.choices(names, weights, k=rng.randint(1, 6))
            ]
            for _ in range(BLOCKS)
        ]

    def __str__(self) -> str:
        blocks = (f"  block {number}: {_names(block)}" for number, block in enumerate(self.blocks))
        head = f"seed {self.seed}: {self.shape}, turns of {turn_s(self.seed):g} s"
        return "\n".join([head, *blocks])


def _names(block: Block) -> str:
    return ", ".join(name for name, _ in block)


class Warnings(logging.Handler):
    """What isolation could not do, and left with a warning."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._taken: list[str] = []
        logging.getLogger("embedkafka.cluster.restoring").addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self._taken.append(record.getMessage())

    def taken(self) -> list[str]:
        taken, self._taken = self._taken, []
        return taken

    def stop(self) -> None:
        logging.getLogger("embedkafka.cluster.restoring").removeHandler(self)


class Round:
    """One cluster and its blocks."""

    def __init__(self, plan: Plan) -> None:
        self.complaints: list[str] = []
        self.told: list[str] = []
        """What happened, in order."""
        self.slowest_s = 0.0
        self.moves = 0
        self._plan = plan
        self._warnings = Warnings()
        self._world = World(plan.shape, random.Random(plan.preparation))

    def run(self) -> None:
        try:
            for number, block in enumerate(self._plan.blocks):
                self._run_block(number, block)
                if self.complaints:
                    break  # what follows would only repeat it
        finally:
            self._world.end_clients()
            self._world.kafka.close()
            self._warnings.stop()

    def _run_block(self, number: int, block: Block) -> None:
        world = self._world
        before = look(world)
        counts: dict[str, int] = {}
        self._isolate(number, block, counts)
        if self.complaints:
            return
        world.end_clients()
        self._judge(f"block {number}", before, counts)
        if self.complaints:
            return
        try:
            with world.kafka.isolated():
                found = broken_services(world)
                world.kill_clients()  # alive, they might have a topic made again
        except Exception as error:  # every kind is a complaint
            found = [f"the cluster cannot be used: {error!r}"]
        self.complaints += [f"after block {number}: {each}" for each in found]
        self._judge(f"the use after block {number}", before, counts)

    def _isolate(self, number: int, block: Block, counts: dict[str, int]) -> None:
        world, began_s = self._world, time.monotonic()
        world.made.clear()
        try:
            with world.kafka.isolated():
                for name, seed in block:
                    self._move(number, name, seed)
                self._move(number, "kill clients", 0)
                counts |= {name: len(world.kafka._state.partitions_of(name)) for name in world.kept}
                began_s = time.monotonic()
        except Exception as error:  # every kind is a complaint
            self.complaints.append(f"block {number} cannot be undone: {error!r}")
        self.complaints += self._warnings.taken()
        took_s = time.monotonic() - began_s
        self.slowest_s = max(self.slowest_s, took_s)
        self.told.append(f"block {number} was put right in {took_s:.1f} s")
        if took_s > SLOW_S:
            self.complaints.append(f"block {number} took {took_s:.1f} s to be put right")

    def _move(self, number: int, name: str, seed: int) -> None:
        began_s = time.monotonic()
        self.moves += 1
        try:
            outcome: object = MOVES[name][1](self._world, random.Random(seed))
        except Exception as error:  # an earlier move may have broken what this one needs
            outcome = f"failed: {error!r}".splitlines()[0][:200]
        took_s = time.monotonic() - began_s
        self.told.append(f"block {number}, {name}: {outcome} ({took_s:.1f} s)")

    def _judge(self, when: str, before: Seen, counts: Mapping[str, int]) -> None:
        try:
            after = look(self._world)
            found = complaints(self._expected(before, after, counts), after)
            found += unhealthy(self._world)
            found += lost_records(self._world)
        except Exception as error:  # a cluster that cannot be looked at is a complaint too
            found = [f"the cluster cannot be looked at: {error!r}"]
        self.complaints += [f"after {when}: {each}" for each in found]

    def _expected(self, before: Seen, after: Seen, counts: Mapping[str, int]) -> Seen:
        """What was there before, without what blocks deleted and with partitions they added.

        Kafka's own topics may come or go with a block, and their settings with them.
        """
        gone = self._world.gone
        topics: dict[str, Any] = {}
        for name, (topic_id, placed) in before.topics.items():
            if name in gone and name not in after.topics:
                continue
            _, now = after.topics.get(name, (None, {}))
            added = {n: now.get(n) for n in range(len(placed), counts.get(name, 0))}
            topics[name] = (topic_id, {**placed, **added})
            if name == "own" and name in after.topics:
                topics[name] = after.topics[name] if len(now) == len(placed) else topics[name]
        internal = {each: v for each, v in after.settings.items() if each[1] in INTERNAL_TOPICS}
        lost = {KEPT_GROUP} if KEPT_GROUP in gone and KEPT_GROUP not in after.groups else set()
        return replace(
            before,
            topics=topics,
            groups={name: state for name, state in before.groups.items() if name not in lost},
            offsets={name: offset for name, offset in before.offsets.items() if name not in lost},
            settings={
                (kind, name): values
                for (kind, name), values in {**internal, **before.settings}.items()
                if kind != "topics" or name in topics or (kind, name) in internal
            },
            effective={
                (broker, name): values if name not in gone else after.effective[broker, name]
                for (broker, name), values in before.effective.items()
            },
            log_dirs={
                **{  # of partitions that were added, and of topics that were made again
                    each: directory
                    for each, directory in after.log_dirs.items()
                    if each not in before.log_dirs or each[1].topic in gone
                },
                **{
                    (broker, partition): directory
                    for (broker, partition), directory in before.log_dirs.items()
                    if partition.topic not in gone
                },
            },
        )


def run_rounds(seed: int, rounds: int) -> bool:
    """Runs rounds from this seed on; returns whether all have passed."""
    failed: list[int] = []
    began_s, moves = time.monotonic(), 0
    for number in range(seed, seed + rounds):
        plan = Plan(number)
        round_began_s = time.monotonic()
        with turns_of(number):
            round_ = Round(plan)
            round_.run()
        took_s = time.monotonic() - round_began_s
        moves += round_.moves
        verdict = "FAILED" if round_.complaints else "passed"
        print(
            f"seed {number} {verdict} {took_s:5.1f} s, {round_.moves} moves, undone within "
            f"{round_.slowest_s:.1f} s; {plan.shape}",
            flush=True,
        )
        if round_.complaints:
            failed.append(number)
            print("\n".join([str(plan), *round_.told, "violated:"]))
            print("\n".join(f"  - {each}" for each in round_.complaints[:20]), flush=True)
    print(f"{rounds} clusters, {moves} moves, {len(failed)} failed; ", end="")
    print(f"{time.monotonic() - began_s:.0f} s", flush=True)
    if failed:
        print(f"failed seeds: {', '.join(map(str, failed))}", flush=True)
    return not failed


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.isolation", description=__doc__)
    parser.add_argument("--rounds", type=int, default=1, help="how many clusters")
    parser.add_argument(
        "--seed", type=int, default=None, help="seed of the first cluster (default: random)"
    )
    parser.add_argument("--plan", action="store_true", help="print the plans and exit")
    asked = parser.parse_args()
    seed = random.SystemRandom().randrange(1, 10**6) if asked.seed is None else asked.seed
    print(f"seed {seed}", flush=True)
    if asked.plan:
        for number in range(seed, seed + asked.rounds):
            print(Plan(number))
        return 0
    logging.getLogger().addHandler(logging.NullHandler())  # brokers warn of every fault
    faulthandler.dump_traceback_later(asked.rounds * HANGS_S, exit=True)
    return 0 if run_rounds(seed, asked.rounds) else 1


if __name__ == "__main__":
    sys.exit(main())
