"""CI, the matrix and the pre-commit hooks call commands that exist.

GitHub runs the workflows. Here we can only check their form and the names they use.
"""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
RECIPES = sorted((ROOT / "ci" / "github-actions").glob("*.yml"))
ACTIONS = [
    *sorted((ROOT / ".github" / "actions").glob("*/action.yml")),
    ROOT / "ci" / "setup-embedkafka" / "action.yml",
]
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
MAJOR_VERSION = re.compile(r"[\w-]+/[\w./-]+@(v\d+|release/v\d+)")


def loaded(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(path.read_text())
    return document


def steps_in(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if "runs" in document:
        yield from document["runs"]["steps"]
    for job in document.get("jobs", {}).values():
        yield from job["steps"]


def rows(workflow: str, job: str) -> list[dict[str, Any]]:
    document = loaded(ROOT / ".github" / "workflows" / workflow)
    included: list[dict[str, Any]] = document["jobs"][job]["strategy"]["matrix"]["include"]
    return included


def constant_of_noxfile(name: str) -> Any:
    """Reads the constant without importing the file: nox is not installed where the tests run."""
    for statement in ast.parse((ROOT / "noxfile.py").read_text()).body:
        if isinstance(statement, ast.AnnAssign) and getattr(statement.target, "id", None) == name:
            assert statement.value is not None
            return ast.literal_eval(statement.value)
    raise AssertionError(f"noxfile.py has no {name}")


def stages(name: str) -> list[str]:
    """The stages in one of the lists in ci/run.sh."""
    script = (ROOT / "ci" / "run.sh").read_text()
    found = re.search(rf'^{name}=\((?:"\$\{{\w+\[@\]\}}" )*(.*)\)$', script, re.MULTILINE)
    assert found is not None
    return found[1].split()


@pytest.mark.parametrize(
    ("schema", "files"),
    [("vendor.github-workflows", [*WORKFLOWS, *RECIPES]), ("vendor.github-actions", ACTIONS)],
    ids=["workflows", "actions"],
)
def test_workflows_follow_githubs_schema(schema: str, files: list[Path]) -> None:
    assert files
    checked = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *map(str, files)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_has_least_permissions_and_runs_once_at_a_time(path: Path) -> None:
    workflow = loaded(path)
    assert workflow["permissions"] == {"contents": "read"}
    assert "group" in workflow["concurrency"]
    for name, job in workflow["jobs"].items():
        assert "timeout-minutes" in job, name


@pytest.mark.parametrize("path", [*WORKFLOWS, *RECIPES, *ACTIONS], ids=lambda path: path.stem)
def test_actions_are_pinned_by_major_version(path: Path) -> None:
    for step in steps_in(loaded(path)):
        used = step.get("uses")
        if used is None:
            continue
        if used.startswith("./"):
            assert (ROOT / used / "action.yml").exists(), used
        else:
            assert MAJOR_VERSION.fullmatch(used), used


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_commands_in_workflows_exist(path: Path) -> None:
    for step in steps_in(loaded(path)):
        command = step.get("run", "")
        assert set(re.findall(r"\bmake ([a-z-]+)", command)) <= TARGETS, command
        for script in re.findall(r"\bci/[\w.-]+", command):
            assert (ROOT / script).exists(), command


def test_every_stage_of_a_push_is_a_job() -> None:
    check = loaded(ROOT / ".github" / "workflows" / "check.yml")
    assert check["jobs"]["stage"]["strategy"]["matrix"]["stage"] == stages("test") + stages("gates")


def test_every_stage_has_a_command() -> None:
    script = (ROOT / "ci" / "stage.sh").read_text()
    named = set(stages("test") + stages("gates") + stages("nightly"))
    assert named == set(re.findall(r"^ {4}([\w.-]+)\) ", script, re.MULTILINE))
    assert set(re.findall(r"\bmake ([a-z-]+)", script)) <= TARGETS


HANGING = f"exec {sys.executable} -c 'import threading; threading.Event().wait()'"


def run_stages(home: Path, script: str, *stages: str, **environ: str) -> Any:
    """Runs ci/run.sh with a stage.sh that does `script`."""
    scripts = home / "ci"
    scripts.mkdir()
    shutil.copy(ROOT / "ci" / "run.sh", scripts)
    for name, text in {"stage.sh": script, "packages.sh": ":"}.items():
        (scripts / name).write_text(f"#!/bin/sh\n{text}\n")
        (scripts / name).chmod(0o755)
    (home / "Makefile").write_text("setup:\n")
    inherited = {name: value for name, value in os.environ.items() if name != "CI"}
    return subprocess.run(
        [scripts / "run.sh", *stages],
        env=inherited | environ,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_first_failure_ends_a_run_of_ci_and_comes_last(tmp_path: Path) -> None:
    script = f'[ $1 = broken ] || {HANGING}\necho "what broke"; exit 1'
    done = run_stages(tmp_path, script, "hanging", "broken", CI="true")
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(r"^hanging +stopped", done.stdout, re.MULTILINE), done.stdout
    assert done.stdout.endswith("broken ended so:\nwhat broke\n")


def test_a_stage_that_hangs_ends_with_its_stacks(tmp_path: Path) -> None:
    script = f"[ $1 = quick ] || {HANGING}"
    done = run_stages(tmp_path, script, "hanging", "quick", STAGE_LIMIT="2s")
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(r"^quick +passed", done.stdout, re.MULTILINE), done.stdout
    end = done.stdout.partition("hanging ended so:")[2]
    assert "Fatal Python error: Aborted" in end, done.stdout
    assert " in wait" in end


def test_the_matrix_on_github_is_that_of_nox() -> None:
    pythons, pysparks = constant_of_noxfile("PYTHONS"), constant_of_noxfile("PYSPARKS")
    on_linux = [row for row in rows("matrix.yml", "tests") if row["os"] == "ubuntu-latest"]
    assert [row["python"] for row in on_linux] == list(pythons)
    assert {(row["python"], row["pyspark"]) for row in rows("matrix.yml", "spark")} == {
        (python, pyspark) for pyspark, supported in pysparks.items() for python in supported
    }


def test_the_pyspark_of_make_test_is_in_the_matrix() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (pinned,) = (p for p in settings["dependency-groups"]["test"] if isinstance(p, str))
    assert pinned.removeprefix("pyspark==") in constant_of_noxfile("PYSPARKS")


def test_classifiers_name_the_pythons_of_the_matrix() -> None:
    settings = (ROOT / "pyproject.toml").read_text()
    declared = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', settings)
    assert declared == sorted({row["python"] for row in rows("matrix.yml", "tests")})


def test_commands_of_the_commit_hooks_exist() -> None:
    (repository,) = loaded(ROOT / ".pre-commit-config.yaml")["repos"]
    assert repository["repo"] == "local", "remote hooks need the network"
    for hook in repository["hooks"]:
        program, *arguments = hook["entry"].split()
        if program == "make":
            assert arguments[0] in TARGETS, hook["id"]
        else:
            assert shutil.which(ROOT / program), hook["id"]


def recipe_commands() -> Iterator[str]:
    """The shell lines of the recipes for people's CI."""
    for path in [*RECIPES, ACTIONS[-1]]:
        yield from (step["run"] for step in steps_in(loaded(path)) if "run" in step)
    job = loaded(ROOT / "ci" / "gitlab" / "embedkafka.gitlab-ci.yml")["kafka-tests"]
    yield from [*job["before_script"], *job["script"]]
    jenkins = (ROOT / "ci" / "jenkins" / "Jenkinsfile").read_text()
    yield from re.findall(r"\bsh '(.*)'", jenkins)


def test_commands_in_recipes_are_shell_and_name_subcommands_and_options_that_exist() -> None:
    commands = list(recipe_commands())
    assert len(commands) > 10
    shown = (ROOT / "docs" / "reference" / "command.md").read_text()
    options = (ROOT / "docs" / "reference" / "pytest.md").read_text()
    for command in commands:
        plain = re.sub(r"\$\{\{.*?\}\}", "x", command)
        subprocess.run(["bash", "-n", "-c", plain], check=True)
        for subcommand in re.findall(r"\bembedkafka ([a-z-]+)", plain):
            assert f"## embedkafka {subcommand}\n" in shown, command
        for option in re.findall(r"--kafka-[a-z]+", plain):
            assert f"`{option}" in options, command


def test_gitlabs_recipe_has_the_form_of_gitlab() -> None:
    checked = subprocess.run(
        [
            *(sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.gitlab-ci"),
            str(ROOT / "ci" / "gitlab" / "embedkafka.gitlab-ci.yml"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_braces_of_the_jenkinsfile_match() -> None:
    text = re.sub(
        r"//.*|'[^']*'|\"[^\"]*\"", "", (ROOT / "ci" / "jenkins" / "Jenkinsfile").read_text()
    )
    depth = 0
    for brace in re.findall("[{}]", text):
        depth += 1 if brace == "{" else -1
        assert depth >= 0
    assert depth == 0
