"""What a log and a manager find after a loss of power: less, but never damage."""

import itertools
import uuid
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from embedkafka.broker.log.config import LogConfig
from embedkafka.broker.log.files import checkpoints
from embedkafka.broker.log.log import Log
from embedkafka.broker.log.manager import LogManager
from embedkafka.runtime.ids import TopicPartition
from tests.doubles.power import VolatileFiles
from tests.unit.broker.log.conftest import LogKit

SMALL: dict[str, Any] = {"segment_bytes": 200, "index_interval_bytes": 50}
ORDERS = TopicPartition("orders", 0)
TOPIC_ID = uuid.UUID("b8d131c5-2a3d-4b3f-9f1e-0a0b0c0d0e0f")


class Machine:
    """A log directory on a disk that may lose power; each loss leaves another directory."""

    def __init__(self, kit: LogKit) -> None:
        self.kit = kit
        self.files = kit.files = VolatileFiles()
        self.losses = itertools.count(1)
        self.root = kit.root / "boot-0"

    def start(self, **config: Any) -> LogManager:
        manager = LogManager(
            [self.root],
            self.kit.environment,
            topic_config=lambda topic: LogConfig(**{**SMALL, **config}),
        )
        manager.startup()
        return manager

    def lose_power(self, *, keeps_names: bool) -> None:
        target = self.kit.root / f"boot-{next(self.losses)}"
        self.files.lose_power(self.root, target, keeps_names=keeps_names)
        self.root = target
        self.files = self.kit.files = VolatileFiles()
        self.kit.tasks.pending.clear()

    def damage_first_segment(self) -> None:
        path = self.root / "orders-0" / f"{0:020d}.log"
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)

    def restart(self, *, keeps_names: bool, **config: Any) -> Log:
        """The log as the next boot of the machine finds it."""
        self.lose_power(keeps_names=keeps_names)
        return self.start(**config).get_or_create(ORDERS)


@pytest.fixture
def machine(kit: LogKit) -> Machine:
    return Machine(kit)


def numbers(count: int) -> list[bytes]:
    return [b"%03d" % number for number in range(count)]


def read_all(kit: LogKit, log: Log) -> list[bytes | None]:
    """The values of all records; none may be unreadable."""
    values = kit.values(log)
    assert len(values) == log.log_end_offset
    return values


def fill(kit: LogKit, log: Log, count: int, epoch: int = 0) -> None:
    for value in numbers(count):
        kit.append(log, value, epoch=epoch)


@pytest.mark.parametrize("keeps_names", [True, False])
def test_what_was_synced_is_kept_and_the_rest_is_cut_off(
    kit: LogKit, machine: Machine, keeps_names: bool
) -> None:
    manager = machine.start()
    log = manager.get_or_create(ORDERS)
    fill(kit, log, 20)
    kit.tasks.run_pending()
    synced = log.recovery_point
    fill(kit, log, 20)
    manager.checkpoint_recovery_points()
    assert 0 < synced < log.log_end_offset
    log = machine.restart(keeps_names=keeps_names)
    assert log.log_end_offset >= synced
    assert read_all(kit, log) == (numbers(20) * 2)[: log.log_end_offset]


@pytest.mark.parametrize("keeps_names", [True, False])
def test_every_record_is_kept_if_every_append_is_synced(
    kit: LogKit, machine: Machine, keeps_names: bool
) -> None:
    log = machine.start(flush_messages=1).get_or_create(ORDERS, TOPIC_ID)
    for life in range(1, 4):
        fill(kit, log, 15, epoch=life)
        log = machine.restart(keeps_names=keeps_names, flush_messages=1)
        assert log.topic_id == TOPIC_ID
        assert read_all(kit, log) == numbers(15) * life
        assert log.end_offset_for_epoch(life).end_offset == 15 * life


def test_a_damaged_segment_is_found_if_it_was_rolled_and_not_synced(
    kit: LogKit, machine: Machine
) -> None:
    manager = machine.start()
    log = manager.get_or_create(ORDERS)
    fill(kit, log, 20)
    manager.checkpoint_recovery_points()
    manager.kill()
    machine.damage_first_segment()
    log = machine.start().get_or_create(ORDERS)
    assert kit.values(log) == numbers(20)[: log.log_end_offset]
    assert log.log_end_offset < 3


def test_a_clean_shutdown_counts_only_until_the_machine_starts_again(
    kit: LogKit, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine.files, "boot_id", lambda: "this boot")
    manager = machine.start()
    fill(kit, manager.get_or_create(ORDERS), 20)
    manager.shutdown()
    machine.damage_first_segment()
    manager = machine.start()
    assert manager.get_or_create(ORDERS).log_end_offset == 20, "nothing is checked"
    manager.shutdown()
    monkeypatch.setattr(machine.files, "boot_id", lambda: "another boot")
    log = machine.start().get_or_create(ORDERS)
    assert kit.values(log) == numbers(20)[: log.log_end_offset]
    assert log.log_end_offset < 3


@pytest.mark.parametrize(
    ("mark", "is_clean"),
    [("boot.id=now", True), ("boot.id=None", False), ("", True), ('{"version":0}', True)],
)
def test_the_mark_of_apache_kafka_counts_always(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, mark: str, is_clean: bool
) -> None:
    machine.root.mkdir()
    monkeypatch.setattr(machine.files, "boot_id", lambda: "now")
    (machine.root / checkpoints.CLEAN_SHUTDOWN).write_text(mark)
    assert checkpoints.take_clean_mark(machine.files, machine.root) is is_clean
    assert not checkpoints.take_clean_mark(machine.files, machine.root)


def test_without_a_boot_id_every_start_checks(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.root.mkdir()
    monkeypatch.setattr(machine.files, "boot_id", lambda: None)
    checkpoints.mark_clean(machine.files, machine.root)
    assert not checkpoints.take_clean_mark(machine.files, machine.root)


@pytest.mark.parametrize("keeps_names", [True, False])
def test_records_that_replace_truncated_ones_are_checked(
    kit: LogKit, machine: Machine, keeps_names: bool
) -> None:
    manager = machine.start()
    log = manager.get_or_create(ORDERS)
    fill(kit, log, 20)
    log.flush()
    manager.checkpoint_recovery_points()
    log.truncate_to(4)
    fill(kit, log, 20)
    log = machine.restart(keeps_names=keeps_names)
    found = read_all(kit, log)
    assert found in ((numbers(4) + numbers(20))[: len(found)], numbers(20)[: len(found)])


def test_a_new_log_inherits_nothing_from_its_deleted_namesake(
    kit: LogKit, machine: Machine
) -> None:
    manager = machine.start()
    log = manager.get_or_create(ORDERS)
    fill(kit, log, 20)
    log.flush()
    log.update_high_watermark(20)
    log.increment_log_start_offset(18)
    manager.checkpoint_recovery_points()
    manager.checkpoint_log_starts()
    manager.delete_async(ORDERS)
    fill(kit, manager.get_or_create(ORDERS), 10)
    manager.kill()
    for name in (checkpoints.RECOVERY_POINT_CHECKPOINT, checkpoints.LOG_START_CHECKPOINT):
        assert not checkpoints.read_offsets(machine.files, machine.root / name).get(ORDERS)
    assert kit.values(machine.start().get_or_create(ORDERS)) == numbers(10)


def test_a_copy_claims_no_more_than_the_log(kit: LogKit, machine: Machine) -> None:
    manager = machine.start()
    log = manager.get_or_create(ORDERS)
    fill(kit, log, 20)
    kit.tasks.run_pending()
    synced = log.recovery_point
    fill(kit, log, 5)
    manager.copy_to(kit.root / "copies")
    (path,) = (kit.root / "copies").glob(f"*/{checkpoints.RECOVERY_POINT_CHECKPOINT}")
    assert checkpoints.read_offsets(machine.files, path) == {ORDERS: synced}


@pytest.mark.parametrize("text", ["", "\0\0\0\0", "rubbish"])
def test_epochs_are_found_in_the_batches_if_their_file_is_lost(
    kit: LogKit, machine: Machine, text: str
) -> None:
    manager = machine.start()
    log = manager.get_or_create(ORDERS)
    for epoch in range(5):
        fill(kit, log, 10, epoch=epoch)
    expected = [log.end_offset_for_epoch(epoch) for epoch in range(6)]
    manager.shutdown()
    (machine.root / "orders-0" / checkpoints.EPOCH_CHECKPOINT).write_text(text)
    log = machine.start().get_or_create(ORDERS)
    assert [log.end_offset_for_epoch(epoch) for epoch in range(6)] == expected


def test_compacted_segments_are_synced_before_they_replace_others(
    kit: LogKit, machine: Machine
) -> None:
    manager = machine.start(cleanup_policy=frozenset({"compact"}))
    log = manager.get_or_create(ORDERS)
    for number in range(30):
        kit.append(log, b"%d" % number, key=b"%d" % (number % 3))
    log.update_high_watermark(30)
    log.roll()
    kit.tasks.run_pending()
    manager.checkpoint_recovery_points()
    manager.compact("orders")
    machine.files.sync(log.directory)
    expected = kit.values(log)
    log = machine.restart(keeps_names=True, cleanup_policy=frozenset({"compact"}))
    assert kit.values(log) == expected


def test_the_checkpoints_exist_from_the_start(machine: Machine) -> None:
    machine.start()
    assert {path.name for path in machine.root.iterdir()} == {
        "cleaner-offset-checkpoint",
        "log-start-offset-checkpoint",
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
    }


STEPS = st.sampled_from(
    ["append", "append", "append", "roll", "sync", "flush", "checkpoint", "truncate", "clean"]
)


@settings(max_examples=60, deadline=None)
@given(steps=st.lists(STEPS, max_size=40), keeps_names=st.booleans())
def test_no_history_ends_in_damage(new_kit: Any, steps: list[str], keeps_names: bool) -> None:
    """Whatever happened, what is left is a prefix of what was written, and all that was synced."""
    kit = new_kit()
    machine = Machine(kit)
    manager = machine.start()
    log = manager.get_or_create(ORDERS)
    histories: list[list[bytes]] = [[]]
    for number, step in enumerate(steps):
        if step == "append":
            kit.append(log, b"%03d" % number)
            histories[-1].append(b"%03d" % number)
        elif step == "roll":
            log.roll()
        elif step == "sync":
            kit.tasks.run_pending()
        elif step == "flush":
            log.flush()
        elif step == "checkpoint":
            manager.checkpoint_recovery_points()
        elif step == "truncate":
            log.truncate_to(len(histories[-1]) // 2)
            histories.append(histories[-1][: len(histories[-1]) // 2])
        else:
            manager.shutdown()
            manager = machine.start()
            log = manager.get_or_create(ORDERS)
    least = min(log.recovery_point, log.log_end_offset)
    log = machine.restart(keeps_names=keeps_names)
    found = read_all(kit, log)
    assert any(found == history[: len(found)] for history in histories)
    assert len(found) >= least or len(histories) > 1
