"""The documents agree with the code."""

import importlib
import re
from pathlib import Path

import pytest

import embedkafka
from embedkafka.broker.api_table import SERVED, load_api
from tests.tidy.pages import api, environment
from tests.tidy.pages.api import SECTIONS
from tests.tidy.pages.generated import GENERATED
from tests.tidy.sources import DOCUMENTS, PACKAGE, ROOT


def name(document: Path) -> str:
    return document.relative_to(ROOT).as_posix()


def prose(document: Path) -> str:
    """The document without its code blocks."""
    text = document.read_text()
    return re.sub(r"^( *)(`{3,}).*?^\1\2 *$", "", text, flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", GENERATED, ids=name)
def test_a_generated_page_is_current(page: Path) -> None:
    assert page.read_text() == GENERATED[page](), "run `make docs`"


def test_every_api_that_is_served_has_a_handler_that_explains_itself() -> None:
    for key in SERVED:
        assert load_api(key).handler.__doc__, key


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_links_lead_somewhere(document: Path) -> None:
    for link in re.findall(r"\]\(([^)\s:]+)\)", prose(document)):
        path, _, anchor = link.partition("#")
        target = document.parent / path if path else document
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def anchors(document: Path) -> set[str]:
    """The ids that GitHub and mkdocs give to headings, including those of an included document."""
    text = prose(document)
    if included := re.search(r'include-markdown "(.*)"', text):
        return anchors(document.parent / included[1])
    headings = re.findall(r"^#+ +(.*)$", text, re.MULTILINE)
    return {
        re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings
    }


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_named_files_and_modules_exist(document: Path) -> None:
    named = names_in_code(document.read_text())
    assert [name for name in named if not exists(name, document.parent)] == []


def test_a_file_that_is_not_there_is_found_out() -> None:
    text = "`log/log.py` and `log/lgo.py`, `tests/wire`, `tests/wier/`, `embedkafka.runtime.clokc`"
    missing = [name for name in names_in_code(text) if not exists(name, ROOT)]
    assert missing == ["log/lgo.py", "tests/wier/", "embedkafka.runtime.clokc"]


def names_in_code(text: str) -> list[str]:
    """Words in backticks that can only be one of our files, directories or modules."""
    spans = re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    words = [word.rstrip(".,:;") for span in spans for word in span.split()]
    return [word for word in words if OURS.fullmatch(word)]


OURS = re.compile(
    r"[\w-]+(/[\w.-]+)*\.(py|md|sh|toml)"  # a file
    r"|(embedkafka|tests|docs|ci|examples|benchmarks|pytest_plugin)/[\w./-]*"
    r"|[a-z_]+/"  # a package
    r"|(embedkafka|tests|benchmarks)(\.\w+)+"  # a module, or a name in one
)
SUFFIXES = (".py", ".md", ".sh", ".toml")
THEIRS = {"conftest.py", "test_orders.py"}
"""Files of the reader's project."""


def exists(name: str, beside: Path) -> bool:
    """Whether a name exists relative to the root, to the package, or to the document."""
    if name in THEIRS:
        return True
    if re.fullmatch(r"\w+(\.\w+)+", name) and not name.endswith(SUFFIXES):
        return _is_module(name)
    if any((root / name).exists() for root in (ROOT, PACKAGE, beside)):
        return True
    return any(path.as_posix().endswith("/" + name) for path in PACKAGE.rglob("*.py"))


def _is_module(name: str) -> bool:
    path = ROOT / name.replace(".", "/")
    if path.is_dir() or path.with_suffix(".py").exists():
        return True
    module, _, attribute = name.rpartition(".")
    return bool(module) and hasattr(importlib.import_module(module), attribute)


def test_make_targets_in_the_documents_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for document in DOCUMENTS:
        named = set(re.findall(r"`make ([a-z-]+)", document.read_text()))
        assert named <= targets, f"{document.name} names {named - targets}"


def test_the_messages_under_troubleshooting_are_ours() -> None:
    sources = [*PACKAGE.rglob("*.py"), *(ROOT / "pytest_plugin").rglob("*.py")]
    joined = [re.sub(r'"\s*\n\s*f?"', "", source.read_text()) for source in sources]
    ours = re.sub(r"\{[^{}]*\}", "…", "\n".join(joined))
    _, section, *_ = (ROOT / "docs/troubleshooting.md").read_text().split("\n## ")
    messages = re.findall(r"^\| `(.+?)` \|", section, re.MULTILINE)
    assert len(messages) > 8
    assert [message for message in messages if message not in ours] == []


def test_a_list_that_may_be_empty_is_not_required() -> None:
    page = (ROOT / "docs/reference/command.md").read_text()
    assert re.search(r"^embedkafka produce .*\[VALUE \.\.\.\]$", page, re.MULTILINE)
    assert "| `VALUE` | a record's value |" in page


def test_every_environment_variable_of_ours_is_explained() -> None:
    sources = [*PACKAGE.rglob("*.py"), *(ROOT / "pytest_plugin").rglob("*.py")]
    named = {
        name
        for source in sources
        for name in re.findall(r"\bEMBEDKAFKA_[A-Z_]+[A-Z]\b", source.read_text())
    }
    assert named == set(environment.OURS)


@pytest.mark.parametrize("home", ["embedkafka", "embedkafka.spark", "embedkafka.explore"])
def test_the_api_reference_has_every_public_name(home: str) -> None:
    shown = {name for section in SECTIONS if section.home == home for name in section.names}
    assert set(importlib.import_module(home).__all__) <= shown


def test_the_api_reference_shows_a_class_as_its_source_has_it() -> None:
    page = api.render()
    (topic,) = re.findall(r"^### `Topic`$.*?(?=^### )", page, re.DOTALL | re.MULTILINE)
    public = {name for name in vars(embedkafka.Topic) if not name.startswith("_")}
    assert set(re.findall(r"^(?:#### `Topic\.|- `)(\w+)`", topic, re.MULTILINE)) >= public
    assert "timeout_s: float = 30.0" in topic, "a constant is shown by its value"
