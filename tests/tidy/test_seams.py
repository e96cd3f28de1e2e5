"""Time, sockets, files and randomness enter through seams, so that tests can replace them."""

import ast

import pytest

from tests.tidy.sources import MODULES, Reference, matches, references

CLOCK = {"runtime/clock.py", "runtime/real_time.py"}
FILES = {f"runtime/{name}.py" for name in ("files", "file_locks", "positioned", "temporary")}
SOCKETS = {"wire/net/transport.py", "runtime/local_http.py"}
WAKER = {"wire/net/waker.py"}

SEAMS: dict[str, set[str]] = {
    "time": CLOCK,
    "datetime.datetime.now": CLOCK,
    "datetime.datetime.today": CLOCK,
    "datetime.datetime.utcnow": CLOCK,
    "datetime.date.today": CLOCK,
    "sched": set(),
    "asyncio": set(),
    "threading.Timer": set(),
    "open": FILES,
    "io": FILES,
    "os": FILES | {"runtime/forks.py"},
    "shutil": FILES,
    "tempfile": FILES,
    "fcntl": FILES,
    "mmap": FILES,
    "socket": SOCKETS,
    "socketserver": set(),
    "ssl": {"security/tls.py", "security/tls_stream.py"},
    "select": set(),
    "selectors": {"wire/net/processor.py"},
    "subprocess": set(),
    "multiprocessing": set(),
    "random": set(),
    "secrets": set(),
    "uuid.uuid1": set(),
    "uuid.uuid4": {
        "broker/controller/core.py"
    },  # for topics that an old tool created without an id
    "__import__": set(),
    "eval": set(),
    "exec": {"runtime/codegen.py"},
    "importlib.import_module": {
        "__init__.py",
        "wire/protocol/messages/registry.py",
        "broker/api_table.py",
    },
}
"""A name, with everything below it -> the modules that implement the seam and may use it."""

HARMLESS: dict[str, set[str] | None] = {
    "random.Random": None,  # passed in or made from a printed seed: this is the seam
    "os.strerror": None,
    "os.environ.get": {"runtime/patience.py"},  # how slow the machine is
    "socket.EAI_NONAME": None,  # error codes
    "socket.EAI_AGAIN": None,
    "socket.EAI_FAIL": None,
    "os.pread": SOCKETS,  # sends file pages to a socket where there is no sendfile
    "os": WAKER | SOCKETS,  # a descriptor without data, to wake a selector
    "shutil.disk_usage": {"broker/log_dirs.py"},  # only asks how full the disk is
}
"""Exceptions from the rules above -> the modules that may use them; None means all."""

PATH_METHODS = {
    "read_text",
    "write_text",
    "read_bytes",
    "write_bytes",
    "mkdir",
    "iterdir",
    "unlink",
}
"""Methods with which `pathlib.Path` itself accesses the disk; no seam of ours has these names."""

WITH_PATHS = {
    "cluster/cluster.py",  # creates the user's scratch directories
    "cluster/clients/decoding.py",  # reads the user's schema
    "runtime/properties.py",  # reads the user's settings
}

USERS_SIDE = ("cli/", "explore/", "page/", "spark/")
"""The shell around the library, which has no cluster to provide a clock or files."""


def refused(tree: ast.AST, module: str) -> list[Reference]:
    return [
        reference
        for reference in references(tree)
        for rule, allowed in SEAMS.items()
        if matches(reference.name, rule) and module not in allowed
        if not _is_harmless(reference.name, module)
    ]


def _is_harmless(name: str, module: str) -> bool:
    return any(
        matches(name, harmless) and (modules is None or module in modules)
        for harmless, modules in HARMLESS.items()
    )


def test_only_the_seams_touch_the_outside_world() -> None:
    found = {
        module.name: refused(module.tree, module.name)
        for module in MODULES
        if not module.name.startswith(USERS_SIDE)
    }
    assert {name: uses for name, uses in found.items() if uses} == {}, (
        "use a seam that is passed in"
    )


def test_no_path_reads_or_writes_by_itself() -> None:
    found = {
        (module.name, node.attr, node.lineno)
        for module in MODULES
        if not module.name.startswith(USERS_SIDE) and module.name not in WITH_PATHS | FILES
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Attribute) and node.attr in PATH_METHODS
    }
    assert found == set(), "use the `Files` that is passed in"


@pytest.mark.parametrize(
    "planted",
    [
        "import time; time.sleep(1)",
        "import time as t; t.monotonic()",
        "from time import monotonic",
        "from time import sleep as pause; pause(1)",
        "from time import *",
        "import time; clock = time",
        "import time; getattr(time, 'sleep')(1)",
        "import importlib; importlib.import_module('time').sleep(1)",
        "from importlib import import_module as load; load('time').sleep(1)",
        "__import__('time').sleep(1)",
        "def late():\n    from time import time\n    return time()",
        "import datetime; datetime.datetime.now()",
        "from datetime import datetime as moment; moment.now(tz=None)",
        "import uuid; uuid.uuid4()",
        "from uuid import uuid1 as new_id",
        "def made(new_id=uuid.uuid4): ...\nimport uuid",
        "import random; random.choice([1])",
        "import random; random.SystemRandom()",
        "from random import shuffle",
        "import secrets; secrets.token_hex()",
        "import os; os.urandom(8)",
        "import os as system; system.open('f', 0)",
        "from os import urandom",
        "import os.path; os.path.exists('f')",
        "open('f')",
        "import builtins; builtins.open('f')",
        "from builtins import open as look; look('f')",
        "import io; io.open('f')",
        "import socket; socket.socket()",
        "from socket import create_connection as connect",
        "exec('import time')",
    ],
)
def test_a_bare_use_is_refused_however_it_is_spelled(planted: str) -> None:
    assert refused(ast.parse(planted), "broker/replica/planted.py")


@pytest.mark.parametrize(
    "honest",
    [
        "from random import Random\ndef f(random: Random): return random.random()",
        "from uuid import UUID; UUID(int=1)",
        "class Clock:\n    def time(self): ...\nClock().time()",
        "def f(files, path): return files.open(path)",
        "from datetime import UTC, datetime; datetime(1970, 1, 1, tzinfo=UTC)",
    ],
)
def test_a_seam_that_was_passed_in_is_not_refused(honest: str) -> None:
    assert refused(ast.parse(honest), "broker/replica/honest.py") == []


def test_the_seams_are_listed_where_they_are() -> None:
    names = {module.name for module in MODULES}
    listed = [*SEAMS.values(), *(modules for modules in HARMLESS.values() if modules)]
    assert set().union(*listed) <= names


def test_a_refusal_names_the_line() -> None:
    tree = ast.parse("x = 1\nimport time\ntime.sleep(x)")
    assert refused(tree, "broker/log/planted.py") == [Reference("time.sleep", 3)]
