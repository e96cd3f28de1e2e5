"""The figures of docs/flows.md and docs/states.md agree with the code."""

import importlib

import pytest

from tests.tidy.pages.flows import FLOWS, Flow
from tests.tidy.pages.sequence import draw, parse
from tests.tidy.pages.states import MACHINES, Machine


@pytest.mark.parametrize("flow", FLOWS, ids=lambda flow: flow.name)
def test_the_code_that_a_figure_names_is_there(flow: Flow) -> None:
    assert [step.code for step in parse(flow.steps) if step.code and not exists(step.code)] == []


def exists(code: str) -> bool:
    module, _, name = code.partition(":")
    found: object = importlib.import_module(f"embedkafka.{module}")
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is not None


def test_code_that_is_gone_is_found_out() -> None:
    assert exists("broker.log.log:Log.append_as_leader")
    assert not exists("broker.log.log:Log.append_as_lieder")


@pytest.mark.parametrize("line", ["client produce", "a > b", "a > b: text | no code", ": text"])
def test_a_line_that_is_no_step_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="not a step"):
        parse(line)


def test_a_figure_shows_its_steps_and_escapes_them() -> None:
    picture = draw(
        "t", "a > b: x < y | broker.log.log:Log.roll\nb waits: for c\n= later\nb --> a: z"
    )
    for shown in ("x &lt; y", "log.roll", "for c", "later", "answer"):
        assert shown in picture


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.title)
def test_every_move_has_an_event_that_a_diagram_can_show(machine: Machine) -> None:
    events = [event for found in machine.predecessors.values() for event in found.values()]
    assert all(event and not set(event) & set(":;\n") for event in events)
