"""The pages of docs/ that are written from the code, each with the function that renders it."""

from collections.abc import Callable, Mapping
from pathlib import Path

from tests.tidy.pages import command, compatibility, plugin, settings, states

DOCS = Path(__file__).parents[3] / "docs"

GENERATED: Mapping[Path, Callable[[], str]] = {
    DOCS / "compatibility.md": compatibility.render,
    DOCS / "states.md": states.render,
    DOCS / "reference" / "command.md": command.render,
    DOCS / "reference" / "pytest.md": plugin.render,
    DOCS / "reference" / "settings.md": settings.render,
}
