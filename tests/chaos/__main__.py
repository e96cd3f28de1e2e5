"""Runs many rounds of chaos, each from its seed and in a separate process.

    python -m tests.chaos --rounds 1000 --seed 7 --workers 2
    python -m tests.chaos --seed 7            one round
    python -m tests.chaos --seed 7 --plan     prints the plan
    python -m tests.chaos --case "a process that is killed"

A round that fails prints its seed, its plan and its violations, and keeps its timeline and its
logs. A stock client that hangs or goes back does not fail a round by itself; it is counted.
"""

import argparse
import faulthandler
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.chaos.plan import CASES, Plan
from tests.chaos.switching import turns_of

ROUND_S = 120
"""A round that takes longer hangs; it normally takes a few seconds."""
PASSED, FAILED, HUNG = "passed", "FAILED", "HUNG"


def run_here(seed: int, case: str | None, directory: Path) -> None:
    """Runs one round in this process, which ends with it."""
    from embedkafka.runtime.locks import check_lock_ranks
    from tests.chaos.world import World

    stacks = (directory / "stacks.txt").open("w")
    faulthandler.dump_traceback_later(ROUND_S, exit=True, file=stacks)
    check_lock_ranks(True)
    tempfile.tempdir = str(directory)
    plan = Plan(seed, case)
    began = time.monotonic()
    with turns_of(seed):
        world = World(plan, directory)
        world.run()
    timeline = world.timeline
    history = world.history
    result = {
        "complaints": timeline.complaints,
        "client": timeline.client_faults,
        "seconds": time.monotonic() - began,
        "records": len(history.records),
        "acknowledged": sum(record.acked is not None for record in history.records),
        "transactions": len(history.txns),
        "committed": sum(txn.confirmed is not None for txn in history.txns.values()),
    }
    (directory / "result.json").write_text(json.dumps(result))
    # A hanging client must not keep the process alive.
    sys.stdout.flush()
    os._exit(0)


def evidence_of(seed: int, case: str | None, evidence: Path) -> Path:
    return evidence / (f"seed-{seed}" + (f"-{case.replace(' ', '-')}" if case else ""))


def run_round(seed: int, case: str | None, evidence: Path) -> tuple[str, dict[str, Any]]:
    """Runs one round in another process; returns its outcome and its output."""
    directory = evidence_of(seed, case, evidence)
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    command = [sys.executable, "-m", "tests.chaos", "--here", str(seed), "--evidence"]
    command.append(str(directory))
    command += ["--case", case] if case else []
    with (directory / "output.txt").open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        try:
            process.wait(ROUND_S + 15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    result = directory / "result.json"
    if not result.exists():
        stacks = _read(directory / "stacks.txt")
        said = _read(directory / "output.txt")[-3_000:]
        if not stacks:
            return FAILED, {"complaints": [f"the round ended with no result: {said}"]}
        # A machine of CI keeps no evidence but what is printed.
        timeline = _read(directory / "timeline.txt")[-6_000:]
        complaint = f"the round did not end within {ROUND_S} s: {said}\n{timeline}\n{stacks}"
        return HUNG, {"complaints": [complaint]}
    found = json.loads(result.read_text())
    if found["complaints"]:
        return FAILED, found
    if not found["client"]:
        shutil.rmtree(directory, ignore_errors=True)
    return PASSED, found


def _read(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""


def report(
    seed: int, case: str | None, outcome: str, found: dict[str, Any], evidence: Path
) -> None:
    plan = Plan(seed, case)
    client = f", {len(found['client'])} faults of clients" if found.get("client") else ""
    counts = ""
    if "seconds" in found:
        counts = (
            f" {found['seconds']:5.1f} s, {found['acknowledged']} of {found['records']} records, "
            f"{found['committed']} of {found['transactions']} transactions{client};"
        )
    print(f"seed {seed} {outcome}{counts} {plan.title()}", flush=True)
    if outcome != PASSED:
        print(f"{plan}\nviolated:")
        for complaint in found["complaints"][:12]:
            print(f"  - {complaint}")
        print(f"evidence: {evidence_of(seed, case, evidence)}", flush=True)


def run_rounds(rounds: list[tuple[int, str | None]], workers: int, evidence: Path) -> bool:
    """Runs rounds, pairs of a seed and a case or None; returns whether all have passed."""
    outcomes: Counter[str] = Counter()
    faults, began = 0, time.monotonic()
    failed: list[str] = []
    with ThreadPoolExecutor(workers) as pool:
        results = pool.map(lambda round_: run_round(round_[0], round_[1], evidence), rounds)
        for (seed, case), (outcome, found) in zip(rounds, results, strict=True):
            outcomes[outcome] += 1
            faults += len(found.get("client", ()))
            if outcome != PASSED:
                failed.append(f"{seed} {case}" if case else str(seed))
            report(seed, case, outcome, found, evidence)
    summary = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.items())
    print(f"{len(rounds)} rounds: {summary}; {faults} faults of clients; ", end="")
    print(f"{time.monotonic() - began:.0f} s", flush=True)
    if failed:
        print(f"failed seeds: {', '.join(failed)}", flush=True)
    return not failed


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument(
        "--seed", type=int, default=None, help="seed of the first round (default: random)"
    )
    parser.add_argument("--workers", type=int, default=1, help="concurrent rounds")
    parser.add_argument("--evidence", type=Path, default=Path(tempfile.gettempdir()) / "ek-chaos")
    parser.add_argument("--plan", action="store_true", help="print the plans and exit")
    parser.add_argument("--case", help="a plan that once found a fault: " + "; ".join(CASES))
    parser.add_argument("--here", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.here is not None:
        run_here(asked.here, asked.case, asked.evidence)
    seed = random.SystemRandom().randrange(1, 10**6) if asked.seed is None else asked.seed
    print(f"seed {seed}", flush=True)
    if asked.plan:
        for number in range(seed, seed + asked.rounds):
            print(f"seed {number}\n{Plan(number, asked.case)}")
        return 0
    rounds = [(number, asked.case) for number in range(seed, seed + asked.rounds)]
    passed = run_rounds(rounds, asked.workers, asked.evidence)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
