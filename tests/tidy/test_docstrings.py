"""Docstrings name modules of this project that exist."""

import ast
import re

import pytest

from embedkafka.broker.settings.broker_keys import BROKER_KEYS
from embedkafka.broker.settings.group import GROUP_KEYS
from embedkafka.broker.settings.topic_keys import TOPIC_KEYS
from tests.tidy.sources import MODULES, ROOT

PATHS = {module.name.removesuffix(".py").removesuffix("/__init__") for module in MODULES}
FOLDERS = {path.rpartition("/")[0] for path in PATHS if "/" in path}
SETTINGS = {*BROKER_KEYS, *GROUP_KEYS, *TOPIC_KEYS}
FILES_OF_KAFKA = {"partition.metadata"}

FILE = re.compile(r"`([\w/]+\.py)`")
#: What begins with the name of a folder, at any depth. Spark's settings look the same.
DOTTED = re.compile(
    rf"`((?:{'|'.join({folder.rpartition('/')[2] for folder in FOLDERS} - {'spark'})})\.[\w.]+)`"
)
ELSEWHERE = re.compile(r"^Not here:(.*?)(?:\n\n|\Z)", re.MULTILINE | re.DOTALL)
IN_BRACKETS = re.compile(r"\(([^()]*)\)")
BARE = re.compile(r"`([a-z_]+(?:[./][a-z_]+)*)`")


def missing(docstring: str) -> set[str]:
    """The names of modules in a docstring that are those of no module."""
    named = set(FILE.findall(docstring))
    found = {name for name in named if not (ROOT / name).exists() and not ends(name[:-3])}
    dotted = set(DOTTED.findall(docstring)) - SETTINGS - FILES_OF_KAFKA - named
    found |= {name for name in dotted if not ends(name.replace(".", "/"))}
    for elsewhere in ELSEWHERE.findall(docstring):
        for bracketed in IN_BRACKETS.findall(elsewhere):
            bare = {name for name in BARE.findall(bracketed) if not name.endswith(".py")} - dotted
            found |= {name for name in bare if not ends(name.replace(".", "/"))}
    return found


def ends(path: str) -> bool:
    """Whether this ends the path of a module, of a folder, or of a name in a module."""
    inner, _, name = path.rpartition("/")
    return any(f"/{one}".endswith(f"/{path}") for one in PATHS | FOLDERS) or any(
        re.search(rf"\b{name}\b", module.path.read_text())
        for module in MODULES
        if inner and f"/{module.name}".endswith(f"/{inner}.py")
    )


def test_docstrings_name_modules_that_exist() -> None:
    documented = ast.Module, ast.ClassDef, ast.FunctionDef
    found = {
        (module.name, name)
        for module in MODULES
        for node in ast.walk(module.tree)
        if isinstance(node, documented)
        for name in missing(ast.get_docstring(node) or "")
    }
    assert sorted(found) == []


@pytest.mark.parametrize(
    ("docstring", "name"),
    [
        ("Read by `shelf.py`.", "shelf.py"),
        ("See `log.shelf`.", "log.shelf"),
        ("A log.\n\nNot here: shelves (`shelf`), the log (`log.log`).", "shelf"),
    ],
)
def test_a_module_that_is_gone_is_noticed(docstring: str, name: str) -> None:
    assert missing(docstring) == {name}


def test_modules_settings_and_what_is_in_modules_are_not_taken_for_missing() -> None:
    text = "`log/log.py`, `log.log.Log`, `log.cleaner.threads`.\n\nNot here: all (`log.files`)."
    assert missing(text) == set()
