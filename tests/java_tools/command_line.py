"""Kafka's own command-line tools, run as their scripts run them."""

import subprocess
from typing import Final

from tests.java_tools.jvm import QUICK_START, java
from tests.java_tools.oracle import kafka_classpath, kafka_version

TIMEOUT_SECONDS: Final = 90


def run_tool(main_class: str, *arguments: str, exit_code: int = 0) -> str:
    """Runs the main class of a script such as `kafka-features.sh`; returns what it prints."""
    done = subprocess.run(
        [
            *(java(), *QUICK_START, "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"),
            *("-cp", kafka_classpath(kafka_version()), main_class, *arguments),
        ],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    assert done.returncode == exit_code, done.stdout + done.stderr
    return done.stdout if exit_code == 0 else done.stdout + done.stderr
