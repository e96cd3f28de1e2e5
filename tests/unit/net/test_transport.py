"""The module of sockets can be imported wherever Python runs."""

import subprocess
import sys

#: Windows has none of these.
WITHOUT_UNIX = """
import os, sys
for name in ("uname", "sendfile", "register_at_fork", "fork"):
    delattr(os, name)
sys.modules["fcntl"] = None
sys.platform = "win32"
from embedkafka.net import transport
assert transport._SENDFILE is None
"""


def test_it_is_imported_where_the_system_is_not_unix():
    subprocess.run([sys.executable, "-c", WITHOUT_UNIX], check=True, timeout=60)
