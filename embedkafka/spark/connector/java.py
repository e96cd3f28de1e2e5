"""Finds the Java that Spark would start."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path


def find_java(environ: Mapping[str, str]) -> Path | None:
    """The java of `JAVA_HOME`, as for `spark-class`, or the one on the `PATH`."""
    home = environ.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        return java if os.access(java, os.X_OK) else None
    found = shutil.which("java", path=environ.get("PATH"))
    return Path(found) if found else None


def java_version(java: Path) -> str:
    """The first line of `java -version`, or why it failed."""
    try:
        done = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"does not run ({error})"
    lines = (done.stderr or done.stdout).splitlines()
    return lines[0] if lines else f"prints nothing, exit code {done.returncode}"
