"""docs/states.md: diagrams of the state machines, drawn from their tables."""

from collections.abc import Mapping
from enum import Enum
from typing import Any, NamedTuple

from embedkafka.broker.controller import partition_machine, replica_machine
from embedkafka.broker.coordinator.groups.classic import states as group_states
from embedkafka.broker.coordinator.transactions import states as txn_states

HEAD = """# State machines

`make docs` draws these diagrams from the tables in the code, and the tests check that they are
current. Each arrow is a move that the table allows, with the event that makes it; any other move
raises and changes nothing. The docstring of each module says what the states mean and how they
answer requests. `kafka.state_changes()` tells the moves of partitions and replicas in a test.
"""


class Machine(NamedTuple):
    title: str
    module: str
    predecessors: Mapping[Any, Mapping[Any, str]]  # Any: each machine has its own state type
    first: Enum


MACHINES = (
    Machine(
        "A classic group",
        "embedkafka/broker/coordinator/groups/classic/states.py",
        group_states.PREDECESSORS,
        group_states.ClassicGroupState.EMPTY,
    ),
    Machine(
        "A transactional id",
        "embedkafka/broker/coordinator/transactions/states.py",
        txn_states.PREDECESSORS,
        txn_states.TxnState.EMPTY,
    ),
    Machine(
        "A partition, to the controller",
        "embedkafka/broker/controller/partition_machine.py",
        partition_machine.PREDECESSORS,
        partition_machine.PartitionState.NON_EXISTENT,
    ),
    Machine(
        "A replica, to the controller",
        "embedkafka/broker/controller/replica_machine.py",
        replica_machine.PREDECESSORS,
        replica_machine.ReplicaState.NON_EXISTENT,
    ),
)


def render() -> str:
    return HEAD + "".join(_section(machine) for machine in MACHINES)


def _section(machine: Machine) -> str:
    states = list(type(machine.first))
    moves = [
        f"    {_name(source)} --> {_name(target)}: {machine.predecessors[target][source]}\n"
        for source in states
        for target in states
        if source in machine.predecessors[target]
    ]
    return (
        f"\n## {machine.title}\n\n{len(states)} states, `{machine.module}`.\n\n"
        "```mermaid\nstateDiagram-v2\n"
        f"    [*] --> {_name(machine.first)}\n{''.join(moves)}```\n"
    )


def _name(state: Enum) -> str:
    """The name shown to clients and in logs, which is not always the enum value."""
    return str(getattr(state, "label", state.value))
