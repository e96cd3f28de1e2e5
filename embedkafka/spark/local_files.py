"""Hadoop's local file system without a process for each file.

Hadoop runs `chmod` for every file and folder of a checkpoint, 26 times for a small query. Ours sets
the same permissions by itself. Hadoop's own setting names it, so no class of Spark's is replaced.
Its source is in `jvm`, with the jar that `python ci/spark_classes.py` makes of it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

HOME: Final = Path(__file__).with_name("jvm")
LOCAL_FILES: Final = HOME / "local-files.jar"
SETTING: Final = "spark.hadoop.fs.file.impl"


def local_files(config: Mapping[str, str]) -> tuple[list[Path], dict[str, str]]:
    """The jar for the class path and the setting that uses it, unless the caller has another."""
    if SETTING in config:
        return [], {}
    return [LOCAL_FILES], {SETTING: "embedkafka.LocalFiles"}
