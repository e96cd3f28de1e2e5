"""Finds the Java that Spark would start."""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_VERSION: Final = re.compile(r'^JAVA_VERSION="(?P<version>\d[^"]*)"', re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaRelease:
    """What an installed Java says about itself."""

    version: str
    text: str
    has_class_archive: bool


def find_java(environ: Mapping[str, str]) -> Path | None:
    """The java of `JAVA_HOME`, as for `spark-class`, or the one on the `PATH`."""
    home = environ.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        return java if os.access(java, os.X_OK) else None
    found = shutil.which("java", path=environ.get("PATH"))
    return Path(found) if found else None


def read_release(java: Path) -> JavaRelease | None:
    """The `release` file of this Java, which most have; reading it starts no process."""
    home = java.resolve().parent.parent
    try:
        text = (home / "release").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None
    version = _VERSION.search(text)
    archive = home / "lib" / "server" / "classes.jsa"
    return (
        JavaRelease(version=version["version"], text=text, has_class_archive=archive.exists())
        if version
        else None
    )


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
