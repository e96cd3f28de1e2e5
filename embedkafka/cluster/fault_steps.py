"""What the steps of a random plan do to a cluster, and how it recovers from each.

Owner: the test's thread.
Not here: the plan (`faults.plans`).
"""

import random
from collections.abc import Callable, Mapping

from embedkafka.cluster.brokers import Brokers
from embedkafka.cluster.on_demand import elect_controller
from embedkafka.cluster.waiting import PATIENCE_S
from embedkafka.faults.plans import Choose, Happening

_RETRIABLE = ("NOT_LEADER_OR_FOLLOWER", "NOT_ENOUGH_REPLICAS", "REQUEST_TIMED_OUT")


def fault_choices(brokers: Brokers) -> Mapping[str, Choose]:
    """By name, everything that can be in a plan for this cluster.

    A partition needs a majority, so it is left out of small clusters.
    """
    steps = _Steps(brokers)
    choices: dict[str, Choose] = {
        "kill": steps.kill,
        "restart": steps.restart,
        "pause": steps.pause,
        "slow_link": steps.slow_link,
        "cut_link": steps.cut_link,
        "stall_link": steps.stall_link,
        "slow_disk": steps.slow_disk,
        "disconnect": steps.disconnect,
        "delay": steps.delay,
        "error": steps.error,
        "elect_controller": steps.elect_controller,
    }
    if len(brokers.all()) > 2:
        choices["partition"] = steps.partition
    return choices


class _Steps:
    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers

    # -- brokers

    def kill(self, rng: random.Random) -> Happening:
        broker = self._broker(rng)
        return Happening(
            text=f"kill broker {broker}",
            begin=lambda: self._brokers.require(broker).kill(),
            end=lambda: self._start(broker),
        )

    def restart(self, rng: random.Random) -> Happening:
        broker = self._broker(rng)
        return Happening(
            text=f"stop broker {broker}",
            begin=lambda: self._brokers.require(broker).stop(),
            end=lambda: self._start(broker),
        )

    def pause(self, rng: random.Random) -> Happening:
        broker = self._broker(rng)
        return Happening(
            text=f"pause broker {broker}",
            begin=lambda: self._brokers.require(broker).pause(),
            end=lambda: self._recover(lambda: self._brokers.require(broker).resume()),
        )

    def elect_controller(self, rng: random.Random) -> Happening:
        broker = self._broker(rng)
        return Happening(
            text=f"elect broker {broker} as the controller",
            begin=lambda: elect_controller(self._brokers, broker, PATIENCE_S),
            end=self._await_members,
        )

    # -- the network

    def partition(self, rng: random.Random) -> Happening:
        alone = self._broker(rng)
        others = {handle.id for handle in self._brokers.all()} - {alone}
        return Happening(
            text=f"cut broker {alone} off from the others and from ZooKeeper",
            begin=lambda: self._brokers.split([{alone}, others], others),
            end=lambda: self._recover(self._brokers.heal),
        )

    def slow_link(self, rng: random.Random) -> Happening:
        broker, ms = self._broker(rng), rng.choice((5, 20, 100))
        return self._fault(
            f"slow the link from clients to broker {broker} by {ms} ms",
            lambda: self._brokers.faults.slow_link("clients", broker, latency_ms=ms).remove,
        )

    def cut_link(self, rng: random.Random) -> Happening:
        broker = self._broker(rng)
        return self._fault(
            f"cut clients off from broker {broker}",
            lambda: self._brokers.faults.cut_link("clients", broker).remove,
        )

    def stall_link(self, rng: random.Random) -> Happening:
        broker = self._broker(rng)
        return self._fault(
            f"stall the link from clients to broker {broker}",
            lambda: self._brokers.faults.stall_link("clients", broker).remove,
        )

    # -- requests and disks

    def disconnect(self, rng: random.Random) -> Happening:
        times, handled = rng.randint(1, 5), rng.random() < 0.5
        return self._fault(
            f"disconnect {times} requests{', after handling them' if handled else ''}",
            lambda: self._brokers.faults.disconnect("any", handled=handled, times=times).remove,
        )

    def delay(self, rng: random.Random) -> Happening:
        times, ms = rng.randint(1, 20), rng.choice((10, 50, 200))
        return self._fault(
            f"delay {times} requests by {ms} ms",
            lambda: self._brokers.faults.delay("any", ms, times=times).remove,
        )

    def error(self, rng: random.Random) -> Happening:
        times, code = rng.randint(1, 5), rng.choice(_RETRIABLE)
        return self._fault(
            f"answer {times} produce requests with {code}",
            lambda: self._brokers.faults.error("Produce", code, times=times).remove,
        )

    def slow_disk(self, rng: random.Random) -> Happening:
        broker, ms = self._broker(rng), rng.choice((1, 5, 20))
        disk = self._brokers.faults.disk(broker)

        def begin() -> Callable[[], None]:
            disk.slow(ms)
            return disk.heal

        return self._fault(f"make writes of broker {broker} take {ms} ms", begin)

    # -- internals

    def _broker(self, rng: random.Random) -> int:
        return rng.choice([handle.id for handle in self._brokers.all()])

    def _fault(self, text: str, begin: Callable[[], Callable[[], None]]) -> Happening:
        """A happening whose `begin` returns what ends it."""
        ends: list[Callable[[], None]] = []

        def end() -> None:
            while ends:
                ends.pop()()

        return Happening(text=text, begin=lambda: ends.append(begin()), end=end)

    def _start(self, broker: int) -> None:
        self._recover(lambda: self._brokers.require(broker).start(timeout_s=PATIENCE_S))

    def _recover(self, undo: Callable[[], None]) -> None:
        undo()
        self._await_members()

    def _await_members(self) -> None:
        known = self._brokers.state.membership()
        self._brokers.waiting.await_state("all brokers to know each other", known)
