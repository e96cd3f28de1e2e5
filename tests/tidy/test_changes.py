"""CHANGES.md keeps the format of Keep a Changelog for tools and readers."""

import re
import tomllib
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
KINDS = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]
RELEASE = re.compile(r"\[(\d+)\.(\d+)\.(\d+)\] - \d{4}-\d{2}-\d{2}")


def parsed(text: str) -> dict[str, dict[str, list[str]]]:
    """Maps each version to its kinds of change, and each kind to the first lines of its entries."""
    versions: dict[str, dict[str, list[str]]] = {}
    entries: list[str] | None = None
    for line in text.splitlines():
        if line.startswith("## "):
            kinds = versions.setdefault(line[3:], {})
            assert not kinds, f"{line} appears twice"
            entries = None
        elif line.startswith("### "):
            assert line[4:] not in kinds, f"{line} appears twice"
            entries = kinds.setdefault(line[4:], [])
        elif line.startswith("- "):
            assert entries is not None, f"entry outside any kind of change: {line}"
            entries.append(line[2:])
    return versions


def check(text: str, *, version: str) -> None:
    versions = parsed(text)
    first, *others = versions
    assert first == "[Unreleased]"
    releases = [RELEASE.fullmatch(heading) for heading in others]
    assert None not in releases, f"releases must look like `## [1.2.3] - 2026-01-31`: {others}"
    numbers = [tuple(map(int, release.groups())) for release in releases if release]
    assert all(newer > older for newer, older in pairwise(numbers)), "releases are not newest first"
    assert not numbers or tuple(map(int, version.split("."))) >= numbers[0]
    for heading, kinds in versions.items():
        assert list(kinds) == [kind for kind in KINDS if kind in kinds], (
            f"{heading} has unknown or unordered kinds"
        )
        for kind, entries in kinds.items():
            assert entries, f"{heading} has nothing under {kind}"


def test_our_changes_have_the_form() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    check((ROOT / "CHANGES.md").read_text(), version=project["version"])


@pytest.mark.parametrize(
    "wrong",
    [
        "## 0.2.0\n### Added\n- x",
        "## [Unreleased]\n- x",
        "## [Unreleased]\n### Added\n",
        "## [Unreleased]\n### Improved\n- x",
        "## [Unreleased]\n### Fixed\n- x\n### Added\n- x",
        "## [Unreleased]\n### Added\n- x\n### Added\n- x",
        "## [Unreleased]\n## [0.2.0] (2026-01-31)\n### Added\n- x",
        "## [Unreleased]\n## [0.1.0] - 2026-01-31\n## [0.2.0] - 2026-02-28",
        "## [Unreleased]\n## [0.3.0] - 2026-01-31\n### Added\n- x",
    ],
)
def test_another_form_is_refused(wrong: str) -> None:
    with pytest.raises(AssertionError):
        check(wrong, version="0.2.0")
