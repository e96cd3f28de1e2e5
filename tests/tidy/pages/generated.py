"""The pages of docs/ that are generated from the code, each with its rendering function."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from tests.tidy.pages import (
    api,
    authorization,
    client_properties,
    command,
    compatibility,
    flows,
    plugin,
    settings,
    shown_files,
    states,
)
from tests.tidy.sources import ROOT

DOCS = ROOT / "docs"

GENERATED: Mapping[Path, Callable[[], str]] = {
    DOCS / "compatibility.md": compatibility.render,
    DOCS / "flows.md": flows.render,
    DOCS / "states.md": states.render,
    DOCS / "how-to" / "ci.md": partial(shown_files.render, DOCS / "how-to" / "ci.md"),
    DOCS / "reference" / "api.md": api.render,
    DOCS / "reference" / "authorization.md": authorization.render,
    DOCS / "reference" / "client-properties.md": client_properties.render,
    DOCS / "reference" / "command.md": command.render,
    DOCS / "reference" / "pytest.md": plugin.render,
    DOCS / "reference" / "settings.md": settings.render,
    **flows.pictures(DOCS / "assets" / "flows"),
}
