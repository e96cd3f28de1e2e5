"""The cluster of a round: in this process, with every kind of fault, or in another process.

Both keep their addresses for the whole round, and write their logs next to the evidence.
"""

import itertools
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from embedkafka import EmbeddedKafka, TopicSpec
from embedkafka.broker.log import moves
from embedkafka.cluster.admin import Admin
from embedkafka.faults.session_link import SessionLink
from embedkafka.runtime.addresses import parse_address
from embedkafka.runtime.clock import SystemClock
from embedkafka.runtime.hashing import coordinator_partition
from embedkafka.runtime.ids import BrokerId
from embedkafka.runtime.topic_names import GROUP_METADATA_TOPIC
from embedkafka.wire.net.client import BrokerClient
from embedkafka.zk import paths
from embedkafka.zk.store import ConnectionLoss, Op
from tests.chaos.history import Timeline
from tests.chaos.plan import Plan
from tests.presence import present

T = TypeVar("T")

START_S = 20.0
OFFSETS_PARTITIONS = STATE_PARTITIONS = 3
CHUNK_BYTES, MOST_MOVED_PER_S = 1_000, 1_000_000
"""How many bytes go to another log directory at a time, and per second at the end: few, so that a
move is under way for a while."""
UNINVITED = ("visitor", "intruder")
"""Loads that write nothing, and need something to look at."""
LOST_FOR_S = 0.05
"""How long the connection is down after a lost answer: a real client reconnects at once."""


def topic_specs(plan: Plan) -> dict[str, TopicSpec]:
    """The topics of the plan's load."""
    replicas = min(3, plan.brokers)
    usual: dict[str, object] = {"min.insync.replicas": plan.min_isr}
    compacted = {
        **usual,
        "cleanup.policy": "compact",
        "segment.bytes": 4_000,
        "min.cleanable.dirty.ratio": 0.01,
    }
    if plan.brokers == 1:  # else a follower that is away misses tombstones, in Kafka too
        compacted["delete.retention.ms"] = 0
    wanted: dict[str, tuple[int, dict[str, object]]] = {}
    for load in plan.workloads:
        if load in ("idempotent", "plain", "classic group", "consumer group", *UNINVITED):
            wanted["orders"] = (plan.partitions, usual)
        elif load == "compacted":
            wanted["compacted"] = (1, compacted)
        elif load == "doomed":
            wanted["doomed"] = (plan.partitions, usual)
        elif load == "copy":
            wanted["source"] = (plan.partitions, usual)
            wanted["sink"] = (plan.partitions, usual)
            wanted["audit"] = (1, usual)
    return {
        name: TopicSpec(partitions=count, replication=replicas, config=config)
        for name, (count, config) in sorted(wanted.items())
    }


def broker_settings(plan: Plan) -> dict[str, object]:
    return {
        "inter.broker.protocol.version": plan.release,
        "num.io.threads": plan.io_threads,
        "auto.create.topics.enable": "visitor" in plan.workloads,
        "log.cleaner.backoff.ms": 100,
        "delete.topic.enable": True,
        "offsets.topic.num.partitions": OFFSETS_PARTITIONS,
        "transaction.state.log.num.partitions": STATE_PARTITIONS,
        "replica.alter.log.dirs.io.max.bytes.per.second": plan.moved_per_s,
        "group.consumer.session.timeout.ms": 1_000,
        "group.consumer.min.session.timeout.ms": 500,
    }


def free_ports(count: int) -> int:
    """Finds so many free ports in a row, below the ephemeral range; returns the first."""
    first = 12_000 + os.getpid() * 7 % 18_000
    for base in itertools.chain(range(first, 31_000, 8), range(12_000, first, 8)):
        with suppress(OSError):
            for port in range(base, base + count):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
            return base
    raise OSError("no free ports")


class InProcess:
    """An `EmbeddedKafka` and the steps that act on it."""

    def __init__(self, plan: Plan, directory: Path, timeline: Timeline) -> None:
        self._plan = plan
        self._directory = directory
        self._timeline = timeline
        self._port = free_ports(plan.brokers)
        moves._CHUNK_BYTES = CHUNK_BYTES  # type: ignore[misc]  # else a move takes one step
        self.kafka = self._start()
        self.bootstrap = self.kafka.bootstrap_servers

    def _start(self) -> EmbeddedKafka:
        kafka = EmbeddedKafka(
            brokers=self._plan.brokers,
            config={**broker_settings(self._plan), **self._security()},
            topics=topic_specs(self._plan),
            data_dir=self._directory / "data" if self._plan.data_dir else None,
            log_dirs=self._plan.log_dirs,
            port=self._port,
            seed=self._plan.seed,
        )
        kafka.start()
        self.log_dirs = kafka._require_brokers()._directory
        return kafka

    def _security(self) -> dict[str, object]:
        if "intruder" not in self._plan.workloads:
            return {}
        from tests.chaos.uninvited import SETTINGS  # most rounds need none

        return SETTINGS

    def reachable(self) -> list[str]:
        brokers = self.kafka._require_brokers().all()
        return [handle.address for handle in brokers if handle.is_reachable]

    def is_former_coordinator(self, group: str, broker: int | None) -> bool:
        """Whether the group has another coordinator, whatever this broker believes."""
        partition = coordinator_partition(group, OFFSETS_PARTITIONS)
        return self.is_former_leader(GROUP_METADATA_TOPIC, partition, broker)

    def is_former_leader(self, topic: str, partition: int, broker: int | None) -> bool:
        """Whether the partition has another leader, whatever this broker believes."""
        elected = self.kafka.existing_topic(topic).partition(partition).leader
        return broker is not None and broker != elected

    def log_dir(self, broker: int, number: int) -> str:
        """One of a broker's log directories, which are numbered from 1."""
        return str(self.kafka._require_brokers().log_dirs(BrokerId(broker))[number - 1])

    def moving(self) -> list[str]:
        """The directories of replicas that are moving between log directories."""
        running = self.kafka._require_brokers().running()
        logs = [log for handle in running for log in handle.require_broker().logs.moving()]
        return [str(log.directory) for log in logs]

    def check(self) -> None:
        self.kafka.check()

    def describe(self) -> str:
        requests = "\n".join(map(str, self.kafka.requests()[-60:]))
        return f"{self.kafka.report()}\nthe last requests:\n{requests}"

    def close(self) -> None:
        """Saves evidence that would disappear with the cluster, then closes it."""
        if not self._plan.data_dir:
            with suppress(shutil.Error):  # a file that the cluster removed or renamed just now
                shutil.copytree(self.log_dirs, self._directory / "data", dirs_exist_ok=True)
        self.kafka.close()
        self.kafka.check()

    # -- one broker

    def kill(self, broker: int) -> None:
        self.kafka.broker(broker).kill()

    def stop(self, broker: int) -> None:
        self.kafka.broker(broker).stop()

    def start(self, broker: int) -> None:
        self.kafka.broker(broker).start(timeout_s=START_S)

    def restart(self, broker: int) -> None:
        self.kafka.broker(broker).restart(timeout_s=START_S)

    def pause(self, broker: int) -> None:
        self.kafka.broker(broker).pause()

    def resume(self, broker: int) -> None:
        self.kafka.broker(broker).resume()

    # -- all brokers

    def kill_all(self, order: tuple[int, ...]) -> None:
        for broker in order:
            if self.kafka.broker(broker).is_running:
                self.kill(broker)
        self._start_all(order)

    def stop_all(self, order: tuple[int, ...]) -> None:
        for broker in order:
            handle = self.kafka.broker(broker)
            if handle.is_paused:
                handle.resume()
            if handle.is_running:
                handle.stop()
        self._start_all(order)

    def _start_all(self, order: tuple[int, ...]) -> None:
        for broker in order:
            self.start(broker)

    def reopen(self) -> None:
        """Closes the cluster cleanly and opens another one on the same directory."""
        self.kafka.close()
        self.kafka.check()
        self.kafka = self._start()

    # -- network and store

    def partition(self, minority: tuple[int, ...]) -> None:
        others = {handle.id for handle in self.kafka.brokers} - set(minority)
        self.kafka.brokers.partition(set(minority), others)

    def cut_zookeeper(self, brokers: tuple[int, ...]) -> None:
        everyone = {handle.id for handle in self.kafka.brokers}
        self.kafka.brokers.partition(everyone, zookeeper=everyone - set(brokers))

    def heal(self) -> None:
        self.kafka.brokers.heal()

    def depose(self) -> None:
        """Forces the election of another controller although the present one is healthy."""
        if self.kafka.brokers.controller is not None:
            self.kafka._require_brokers().zk.store.delete(paths.CONTROLLER)

    def lose_answers(self, broker: int, count: int) -> None:
        """Carries out a broker's next writes to ZooKeeper but loses the answers."""
        incarnation = self.kafka.broker(broker)._lifecycle.incarnation
        if incarnation is not None:
            brokers = self.kafka._require_brokers()
            LostAnswers(incarnation.session, count, self._timeline.note, brokers.on_change)

    def fault(self, api: str, kind: str, detail: Any, times: int) -> None:
        """`detail`: the name of the error, or the milliseconds of a delay."""
        faults = self.kafka.faults
        if kind == "error":
            faults.error(api, detail, times=times)
        elif kind == "delay":
            faults.delay(api, detail, times=times)
        elif kind == "drop_reply":
            faults.drop_reply(api, times=times)
        else:
            faults.disconnect(api, handled=kind == "disconnect_handled", times=times)

    def advance(self, seconds: int) -> None:
        self.kafka.clock.advance(seconds=seconds)

    def recover(self) -> None:
        """Ends every fault and starts every broker that is down."""
        self.kafka.faults.clear()
        self.kafka.brokers.heal()
        for handle in self.kafka.brokers:
            if handle.is_paused:
                handle.resume()
        for handle in self.kafka.brokers:
            if not handle.is_running:
                handle.start(timeout_s=START_S)
        for running in self.kafka._require_brokers().running():
            running.require_broker().logs._moves.set_rate(MOST_MOVED_PER_S)


class LostAnswers:
    """Performs the next writes of a session but loses their answers.

    The connection is lost with the answer and returns a little later, as in ZooKeeper: the client
    cannot know whether the write happened.
    """

    WRITES = ("create", "set", "delete", "multi")

    def __init__(
        self,
        link: SessionLink,
        count: int,
        note: Callable[[str], None],
        on_mended: Callable[[], None],
    ) -> None:
        self._link = link
        self._left = count
        self._note = note
        self._on_mended = on_mended  # wakes waits for reachable brokers
        self._lock = threading.Lock()
        for name in self.WRITES:
            setattr(link.session, name, self._losing(name, getattr(type(link.session), name)))

    def _losing(self, name: str, write: Callable[..., T]) -> Callable[..., T]:
        session = self._link.session

        def lose(*arguments: Any, **named: Any) -> T:
            result = write(session, *arguments, **named)
            with self._lock:
                if not self._left:
                    return result
                self._left -= 1
                if not self._left:
                    for other in self.WRITES:
                        session.__dict__.pop(other, None)
            self._note(f"the answer to {name} {_path(arguments[0])} is lost")
            self._link.cut(self)  # type: ignore[arg-type]  # any object serves as a reason
            mending = threading.Timer(LOST_FOR_S, self._mend)
            mending.daemon = True
            mending.start()
            raise ConnectionLoss(_path(arguments[0]))

        return lose

    def _mend(self) -> None:
        self._link.mend(self)  # type: ignore[arg-type]
        self._on_mended()


def _path(target: str | Sequence[Op]) -> str:
    return target if isinstance(target, str) else ",".join(op.path for op in target)


class Served:
    """`embedkafka serve` on a directory: a process that is killed and restarted."""

    def __init__(self, plan: Plan, directory: Path, timeline: Timeline) -> None:
        self._plan = plan
        self._timeline = timeline
        self._directory = directory
        self._port = free_ports(plan.brokers)
        self.log_dirs = directory / "data"
        self._log = (directory / "served.log").open("ab")
        self._start()
        self.bootstrap = ",".join(f"127.0.0.1:{self._port + n}" for n in range(plan.brokers))
        Admin(self._clients).create_topics(topic_specs(plan))

    def _clients(self) -> list[BrokerClient]:
        addresses = map(parse_address, self.bootstrap.split(","))
        return [BrokerClient(host, port, SystemClock(), "chaos") for host, port in addresses]

    def _start(self) -> None:
        settings = [f"--config={key}={value}" for key, value in broker_settings(self._plan).items()]
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "embedkafka.cli",
                "serve",
                f"--brokers={self._plan.brokers}",
                f"--port={self._port}",
                f"--data-dir={self.log_dirs}",
                *settings,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        line = present(self._process.stdout).readline()  # a round is bounded
        if not line.startswith("BOOTSTRAP"):
            raise AssertionError(f"the served cluster did not start: {self._tail()}")

    def _tail(self) -> str:
        return Path(self._log.name).read_text(errors="replace")[-2_000:]

    def kill_process(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(10)
        self._start()

    def end_process(self) -> None:
        self._end()
        self._start()

    def _end(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(30)
        if code or " ERROR " in self._tail():
            self._timeline.complain(f"the served cluster ended with {code}: {self._tail()}")

    def check(self) -> None:
        if self._process.poll() is not None:
            raise AssertionError(f"the served cluster is gone: {self._tail()}")
        if " ERROR " in self._tail():
            raise AssertionError(f"a thread of the served cluster failed: {self._tail()}")

    def describe(self) -> str:
        return f"process {self._process.pid}: {self._process.poll()}"

    def reachable(self) -> list[str]:
        return self.bootstrap.split(",")

    def is_former_coordinator(self, group: str, broker: int | None) -> bool:
        """Never: this cluster runs as a whole or not at all."""
        return False

    def is_former_leader(self, topic: str, partition: int, broker: int | None) -> bool:
        """Never, for the same reason."""
        return False

    def moving(self) -> list[str]:
        """Nothing: each of its brokers has one log directory."""
        return []

    def recover(self) -> None:
        """Nothing to do: it runs."""

    def advance(self, seconds: int) -> None:
        """The clock of another process is out of reach."""

    def close(self) -> None:
        self._end()
        present(self._process.stdin).close()
        present(self._process.stdout).close()
        self._log.close()
