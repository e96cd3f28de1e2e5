"""A seeded plan: what is done to which broker, one step after the other.

The plan decides by its own model of the cluster, never by what happens in it, so a seed gives the
same steps every time; only their interleaving with the cluster's threads differs.
"""

import random
from dataclasses import dataclass, field

RUNNING, DEAD, PAUSED = "running", "dead", "paused"


@dataclass(frozen=True)
class Step:
    """`act` with `brokers`, then `wait_s` until the next step."""

    act: str
    brokers: tuple[int, ...] = ()
    wait_s: float = 0.0

    def __str__(self):
        return f"{self.act} {','.join(map(str, self.brokers))}".strip()


@dataclass
class Plan:
    """`steps` steps over brokers 1 to `brokers`, at most `most_down` of which are away at once.

    `others` can be done at any time, and to no broker in particular.
    """

    seed: int
    brokers: int
    steps: int
    most_down: int
    others: tuple[str, ...] = ("depose",)
    _rng: random.Random = field(init=False)
    _state: dict[int, str] = field(init=False)
    _cut: set[int] = field(init=False, default_factory=set)

    def __post_init__(self):
        self._rng = random.Random(self.seed)
        self._state = dict.fromkeys(range(1, self.brokers + 1), RUNNING)

    def __iter__(self):
        for _ in range(self.steps):
            act, brokers = self._rng.choice(self._possible())
            self._note(act, brokers)
            yield Step(act, brokers, self._rng.choice([0.0, 0.05, 0.15, 0.4, 0.7]))

    def _possible(self):
        """All that could be done now; what is listed twice is twice as likely."""
        rng = self._rng
        running = [b for b, state in self._state.items() if state == RUNNING]
        dead = [b for b, state in self._state.items() if state == DEAD]
        paused = [b for b, state in self._state.items() if state == PAUSED]
        up = [b for b in running if b not in self._cut]
        down = self.brokers - len(up)
        possible = [(act, ()) for act in self.others]
        possible += [("start", (b,)) for b in dead if b not in self._cut] * 2
        possible += [("resume", (b,)) for b in paused] * 2
        possible += [("kill", (b,)) for b in paused]
        possible += [("heal", ())] * (3 * bool(self._cut))
        possible += [("restart", (rng.choice(up),))]
        if down < self.most_down:
            possible += [("kill", (rng.choice(up),)), ("pause", (rng.choice(up),))] * 2
            possible += [("stop", (rng.choice(up),))]
            if not self._cut:
                possible += [("partition", (rng.choice(up),))] * 2
        return possible

    def _note(self, act, brokers):
        for broker in brokers:
            if act in ("kill", "stop"):
                self._state[broker] = DEAD
            elif act == "pause":
                self._state[broker] = PAUSED
            elif act in ("start", "resume"):
                self._state[broker] = RUNNING
            elif act == "partition":
                self._cut.add(broker)
        if act == "heal":
            self._cut.clear()
