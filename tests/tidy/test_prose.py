"""Docstrings, comments and messages are written in plain English."""

import ast
import io
import re
import tokenize
from pathlib import Path

from tests.tidy.sources import MODULES, ROOT

AVOIDED = re.compile(
    r"\b(whoever|nobody|somebody|anew|meanwhile|thereof|lest|(?:is|are|was|were) told|of its own"
    r"|so that one need not)\b",
    re.IGNORECASE,
)
_SPACE = re.compile(r"""\s*["'][\s\\]*[rRuUfF]*["']\s*|\s+""")
"""Space between words, or what divides a text into several strings."""


def test_the_words_to_avoid_are_avoided() -> None:
    found = {
        module.name: words for module in MODULES if (words := avoided(module.path.read_text()))
    }
    assert found == {}


def test_a_planted_word_is_found() -> None:
    source = '"""Who is\ntold."""\n\nanew = 1  # nobody reads it\nraise ValueError("whoever")\n'
    assert avoided(source) == [(1, "is told"), (4, "nobody"), (5, "whoever")]
    assert (
        avoided('("Who is "\n f"told", 1)') == avoided("('Who is'\n ' told')") == [(1, "is told")]
    )


def avoided(source: str) -> list[tuple[int, str]]:
    """The words to avoid in the comments and strings of a module, with their lines."""
    if AVOIDED.search(_SPACE.sub(" ", source)) is None:
        return []  # few modules need to be parsed
    prose: list[tuple[int, str]] = [
        (token.start[0], token.string)
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    ]
    prose += [
        (node.lineno, node.value)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    return sorted(
        (line, found.group().lower())
        for line, text in prose
        for found in AVOIDED.finditer(" ".join(text.split()))
    )


def _report() -> None:
    """Prints the remaining ones: `python -m tests.tidy.test_prose [path …]`."""
    import sys

    paths = [Path(name) for name in sys.argv[1:]] or [ROOT / "embedkafka"]
    for root in paths:
        for path in sorted(root.rglob("*.py") if root.is_dir() else [root]):
            for line, words in avoided(path.read_text()):
                print(f"{path}:{line}: {words}")


if __name__ == "__main__":
    _report()
