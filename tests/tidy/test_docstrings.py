"""Docstrings name modules of this project that exist."""

import ast
import re

import pytest

from embedkafka.server.config.broker_keys import BROKER_KEYS
from embedkafka.server.config.group import GROUP_KEYS
from embedkafka.server.config.topic_keys import TOPIC_KEYS
from tests.tidy.sources import MODULES, PACKAGES, ROOT

PATHS = {module.name.removesuffix(".py").removesuffix("/__init__") for module in MODULES}
FOLDERS = {path.rpartition("/")[0] for path in PATHS if "/" in path}
SETTINGS = {*BROKER_KEYS, *GROUP_KEYS, *TOPIC_KEYS}

FILE = re.compile(r"`([\w/]+\.py)`")
#: Without `spark`, for its settings look the same.
DOTTED = re.compile(rf"`((?:{'|'.join({*PACKAGES} - {'spark'})})\.[\w.]+)`")
ELSEWHERE = re.compile(r"^Not here:(.*?)(?:\n\n|\Z)", re.MULTILINE | re.DOTALL)
IN_BRACKETS = re.compile(r"\(([^()]*)\)")
BARE = re.compile(r"`([a-z_]+(?:[./][a-z_]+)*)`")


def missing(docstring: str) -> set[str]:
    """The names of modules in a docstring that are those of no module."""
    named = set(FILE.findall(docstring))
    found = {name for name in named if not (ROOT / name).exists() and not ends(name[:-3])}
    dotted = set(DOTTED.findall(docstring)) - SETTINGS - named
    found |= {name for name in dotted if not is_module_or_in_one(name.replace(".", "/"))}
    for elsewhere in ELSEWHERE.findall(docstring):
        for bracketed in IN_BRACKETS.findall(elsewhere):
            bare = {name for name in BARE.findall(bracketed) if not name.endswith(".py")} - dotted
            found |= {name for name in bare if not ends(name.replace(".", "/"))}
    return found


def is_module_or_in_one(path: str) -> bool:
    inner = path.rpartition("/")[0]
    return path in PATHS | FOLDERS or (inner in PATHS and inner not in FOLDERS)


def ends(path: str) -> bool:
    """Whether the path of a module or folder ends like this, or that of what it is in does."""
    known = [f"/{one}" for one in PATHS | FOLDERS]
    return any(one.endswith(f"/{path}") for one in known) or is_module_or_in_one(path)


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
