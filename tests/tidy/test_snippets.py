"""The examples in the documents work: Python runs, commands exist, options and settings parse.

Blocks that need Spark run in `tests/spark/test_snippets.py`.
"""

import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

from embedkafka.cli.entry import parse
from tests.tidy import snippets
from tests.tidy.pages.generated import GENERATED
from tests.tidy.snippets import Block
from tests.tidy.sources import DOCUMENTS, ROOT, settings

PYTHON = [page for page in snippets.pages() if not page.needs_spark]
COMMANDS = [
    (block, line.removeprefix("$ "))
    for block in snippets.blocks("console")
    for line in block.text.splitlines()
    if line.startswith("$ ")
]
EXTRAS = set(settings()["project"]["optional-dependencies"])
OUTSIDE = {"./gradlew", "npm"}
"""Commands of the reader's project."""

KNOWN_LANGUAGES = {"python", "console", "text", "toml", "ini", "yaml", "mermaid", "java"}


def test_there_are_snippets_of_every_kind() -> None:
    assert any(page.files for page in PYTHON)
    assert any(page.scripts for page in PYTHON)
    assert COMMANDS


def test_every_block_names_its_language() -> None:
    for document in DOCUMENTS:
        for block in snippets.blocks_of(document):
            if document.parent != ROOT:  # ARCHITECTURE uses plain blocks for drawings
                assert block.language in KNOWN_LANGUAGES, str(block)


def test_a_file_of_ours_is_shown_where_it_is_kept_current() -> None:
    shown = {block.document for block in snippets.blocks("yaml") if block.title}
    assert shown <= set(GENERATED)


def test_a_block_that_does_not_run_says_why() -> None:
    for block in snippets.blocks("python"):
        reason = block.reason_not_to_run
        assert reason is None or len(reason.split()) >= 3, str(block)


@pytest.mark.timeout(300)
def test_the_tests_pass_when_pasted(tmp_path: Path) -> None:
    homes = [snippets.paste(page, tmp_path) for page in PYTHON if page.files]
    done = snippets.run_pytest(homes, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("block", [block for page in PYTHON for block in page.scripts], ids=str)
def test_a_script_runs_when_pasted(block: Block, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", block.text],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("block", "command"), COMMANDS, ids=lambda value: str(value)[:60])
def test_a_command_can_be_run(block: Block, command: str) -> None:
    words = shlex.split(command, comments=True)
    while words and re.fullmatch(r"\w+=.*", words[0]):  # FOO=bar command
        del words[0]
    match words:
        case ["make", *arguments]:
            targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
            assert {word for word in arguments if "=" not in word} <= targets
        case ["embedkafka", *arguments]:
            parse([word for word in arguments if word != "&"])
        case ["pytest", *arguments] | ["python", "-m", "pytest", *arguments]:
            options = {word.partition("=")[0] for word in arguments if word.startswith("-")}
            assert options <= pytest_words()
        case ["pip", "install", *arguments]:
            for word in arguments:
                extras = re.findall(r"embedkafka\[([\w,]+)\]", word)
                assert {extra for names in extras for extra in names.split(",")} <= EXTRAS
        case ["python", "-m", module, *_]:
            assert (ROOT / module.replace(".", "/")).is_dir()
        case [word, *_]:
            assert word in OUTSIDE or shutil.which(word), (
                f"{block} runs {word}, which does not exist"
            )


@pytest.mark.parametrize("block", snippets.blocks("toml"), ids=str)
def test_ini_keys_exist(block: Block) -> None:
    ini = tomllib.loads(block.text).get("tool", {}).get("pytest", {}).get("ini_options", {})
    assert ini
    assert set(ini) <= pytest_words()


@cache
def pytest_words() -> set[str]:
    """The options and ini keys of pytest with our plugin and xdist."""
    command = [sys.executable, "-m", "pytest", "--help"]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found = re.findall(r"(?<![\w-])--?[a-z][\w-]*|^  \w+(?= \()", shown.stdout, re.MULTILINE)
    return {word.strip() for word in found}
