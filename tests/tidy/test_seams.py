"""Time, sockets, files and chance come in through seams, so that a test can put in its own."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "embedkafka"

SEAMS = {
    "time": {"runtime/clock.py"},
    "socket.socket": {"net/transport.py"},
    "socket.create_connection": {"net/transport.py"},
    "open": {"runtime/files.py"},
    "os.open": {"runtime/files.py"},
    "random.*": set(),
}
"""Name -> the modules that may use it; a module's name stands for everything in it."""

HARMLESS = {"random.Random"}
"""A generator that is passed in, or made from a printed seed, is the seam itself."""

USERS_SIDE = ("cli.py", "spark/")
"""The shell around the library, which has no cluster to ask for its clock or files."""


def used_names(tree: ast.AST) -> set[str]:
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            names.add(node.func.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            name = f"{node.value.id}.{node.attr}"
            if name not in HARMLESS:
                names |= {name, node.value.id, f"{node.value.id}.*"}
    return names


@pytest.mark.parametrize(
    "path",
    sorted(PACKAGE.rglob("*.py")),
    ids=lambda path: path.relative_to(PACKAGE).as_posix(),
)
def test_only_the_seams_touch_the_outside_world(path):
    relative = path.relative_to(PACKAGE).as_posix()
    if relative.startswith(USERS_SIDE):
        return
    names = used_names(ast.parse(path.read_text()))
    imported = {
        alias.name
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    for name, allowed in SEAMS.items():
        uses = name in names and (name.split(".")[0] in imported or name == "open")
        assert not uses or relative in allowed, f"{relative} uses {name}; pass the seam in"
