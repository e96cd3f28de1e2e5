"""Every how-to page says what it promises, and a test holds it: `promises.toml` has the list."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

from tests.tidy.sources import ROOT

HOW_TO = {page.stem: page for page in sorted((ROOT / "docs/how-to").glob("*.md"))}
PROMISES: dict[str, dict[str, str]] = tomllib.loads(
    Path(__file__).with_name("promises.toml").read_text()
)


def test_every_page_has_promises() -> None:
    assert set(PROMISES) == set(HOW_TO) - {"index"}


@pytest.mark.parametrize("page", PROMISES)
def test_a_promise_is_on_its_page(page: str) -> None:
    text = " ".join(HOW_TO[page].read_text().split())
    assert [promise for promise in PROMISES[page] if promise not in text] == []


@pytest.mark.parametrize("page", PROMISES)
def test_a_test_holds_each_promise(page: str) -> None:
    lacking = {promise: test for promise, test in PROMISES[page].items() if not is_test(test)}
    assert lacking == {}


def test_a_test_that_is_not_there_is_found_out() -> None:
    assert is_test(f"tidy/test_promises.py::{test_every_page_has_promises.__name__}")
    assert not is_test("tidy/test_promises.py::test_everything")
    assert not is_test("tidy/test_promise.py::test_every_page_has_promises")
    assert not is_test("tidy/test_promises.py::is_test")


def is_test(name: str) -> bool:
    """Whether `folder/test_file.py::test_name`, below tests/, is a test of that file."""
    path, _, function = name.partition("::")
    file = ROOT / "tests" / path
    if not file.is_file() or not re.match("test_", function):
        return False
    return any(
        isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == function
        for node in ast.walk(ast.parse(file.read_text()))
    )
