"""The workflows for users call the command line with valid arguments."""

import re
import shlex
from pathlib import Path

import pytest

from embedkafka.cli import spark_jars, up
from embedkafka.cli.entry import parse

WORKFLOWS = Path(__file__).parents[3] / "ci" / "github-actions"
COMMANDS = [
    pytest.param(command, id=f"{file.stem}: {command}")
    for file in sorted(WORKFLOWS.glob("*.yml"))
    for command in re.findall(r"run: embedkafka (.*)", file.read_text())
]


def test_there_are_commands_to_check() -> None:
    assert len(COMMANDS) == 2


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_in_a_workflow_is_understood(command: str) -> None:
    parsed = parse(shlex.split(command))
    assert parsed.run is (up.run if command.startswith("up ") else spark_jars.run)
