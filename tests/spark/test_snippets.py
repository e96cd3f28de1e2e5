"""The tests in README and docs/ that need Spark pass when pasted, all in one session."""

from pathlib import Path

import pytest

from tests.tidy import snippets

PAGES = [page for page in snippets.pages() if page.needs_spark]


@pytest.mark.timeout(600)
def test_the_tests_pass_when_pasted(tmp_path: Path) -> None:
    assert PAGES
    done = snippets.run_pytest([snippets.paste(page, tmp_path) for page in PAGES], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_scripts_with_spark_are_titled_or_tests() -> None:
    assert [str(block) for page in PAGES for block in page.scripts] == []
