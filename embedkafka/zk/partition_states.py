"""Writes the states of many partitions in few transactions, as the controller.

A transaction stops at the first failing operation. We take out its partition and try the others
again, so that one lost race costs the rest only time.

Owner: none.
Not here: reading states, and a leader's change of its ISR (`kafka_zk`).
"""

from collections.abc import Mapping, Sequence

from embedkafka.runtime.ids import TopicPartition
from embedkafka.runtime.values import dataclass, replace
from embedkafka.zk import paths, payloads
from embedkafka.zk.payloads import LeaderAndIsr
from embedkafka.zk.store import (
    BadVersion,
    ConnectionLoss,
    CreateOp,
    NodeExists,
    Op,
    SessionExpired,
    SetOp,
    ZkError,
    ZkStore,
)
from embedkafka.zk.znodes import OPS_PER_MULTI, children, chunks, find, write_as_controller


@dataclass(frozen=True, slots=True, kw_only=True)
class StateUpdates:
    """The partition states that were written, lost a race for the znode, or failed."""

    written: Mapping[TopicPartition, LeaderAndIsr]
    retry: Sequence[TopicPartition]
    failed: Mapping[TopicPartition, ZkError]


def create_states(
    store: ZkStore, states: Mapping[TopicPartition, LeaderAndIsr], *, epoch_version: int
) -> StateUpdates:
    """Creates `state` znodes with their parents, many in one transaction.

    A transaction whose answer was lost is repeated and finds its own znodes, which count as
    created.
    """
    written: dict[TopicPartition, LeaderAndIsr] = {}
    failed: dict[TopicPartition, ZkError] = {}
    waiting = dict(states)
    while waiting:
        ops, owners = _creations(store, waiting)
        try:
            write_as_controller(store, ops, epoch_version)
        except (SessionExpired, ConnectionLoss):
            raise  # of the whole transaction
        except ZkError as error:
            owner = owners[error.op_index - 1]
            if owner is None:
                continue  # another client has created the parent
            state = waiting.pop(owner)
            if isinstance(error, NodeExists) and _holds(store, owner, state):
                written[owner] = state
            else:
                failed[owner] = error
            continue
        for tp in dict.fromkeys(tp for tp in owners if tp is not None):
            written[tp] = waiting.pop(tp)
    return StateUpdates(written=written, retry=[], failed=failed)


def update_states(
    store: ZkStore,
    states: Mapping[TopicPartition, LeaderAndIsr],
    *,
    controller_epoch: int,
    epoch_version: int,
) -> StateUpdates:
    """As the controller, writes states whose `zk_version` is still the znode's.

    One transaction carries many partitions. A partition whose leader has changed its ISR is taken
    out and returned in `retry`.
    """
    written: dict[TopicPartition, LeaderAndIsr] = {}
    failed: dict[TopicPartition, ZkError] = {}
    retry: list[TopicPartition] = []
    for chunk in chunks(list(states), OPS_PER_MULTI):
        waiting = {tp: replace(states[tp], controller_epoch=controller_epoch) for tp in chunk}
        while waiting:
            ops: list[Op] = [
                SetOp(
                    paths.partition_state(tp),
                    payloads.encode_partition_state(state),
                    state.zk_version,
                )
                for tp, state in waiting.items()
            ]
            try:
                write_as_controller(store, ops, epoch_version)
            except (SessionExpired, ConnectionLoss):
                raise  # of the whole transaction
            except ZkError as error:
                lost = list(waiting)[error.op_index - 1]
                del waiting[lost]
                if isinstance(error, BadVersion):
                    retry.append(lost)
                else:
                    failed[lost] = error
                continue
            for tp, state in waiting.items():
                written[tp] = replace(state, zk_version=state.zk_version + 1)
            break
    return StateUpdates(written=written, retry=retry, failed=failed)


def _holds(store: ZkStore, partition: TopicPartition, state: LeaderAndIsr) -> bool:
    """Whether this controller has already written the znode."""
    return find(store, paths.partition_state(partition)) == payloads.encode_partition_state(state)


def _creations(
    store: ZkStore, states: Mapping[TopicPartition, LeaderAndIsr]
) -> tuple[list[Op], list[TopicPartition | None]]:
    """Create operations for as many partitions as fit, each with its partition (parents: None)."""
    ops: list[Op] = []
    owners: list[TopicPartition | None] = []
    there: dict[str, set[str]] = {}
    for tp, state in states.items():
        if tp.topic not in there:
            parent = paths.partitions(tp.topic)
            there[tp.topic] = set(children(store, parent))
            if not there[tp.topic] and store.exists(parent) is None:
                ops.append(CreateOp(parent))
                owners.append(None)
        if str(tp.partition) not in there[tp.topic]:
            ops.append(CreateOp(paths.partition(tp)))
            owners.append(tp)
        data = payloads.encode_partition_state(state)
        ops.append(CreateOp(paths.partition_state(tp), data))
        owners.append(tp)
        if len(ops) >= OPS_PER_MULTI:
            break
    return ops, owners
