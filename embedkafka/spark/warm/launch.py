"""Leases a JVM for the settings of a session, and says how to start one."""

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from embedkafka.spark.connector.installed import InstalledSpark
from embedkafka.spark.connector.java import find_java, read_release
from embedkafka.spark.connector.progress import Progress
from embedkafka.spark.warm.fitness import (
    find_obstacle,
    gather_facts,
    launch_settings,
    launch_variables,
)
from embedkafka.spark.warm.home import default_home
from embedkafka.spark.warm.lease import Lease, take_lease


def lease_jvm(
    settings: Mapping[str, str],
    spark: InstalledSpark,
    *,
    class_path: Sequence[str],
    java_options: Sequence[str],
    launched: Callable[[Path], Mapping[str, str]],
    launcher_options: str,
    progress: Progress,
) -> Lease | None:
    """A warm JVM for these settings; None, after a line, if there can be none.

    `launched` adds the settings of a JVM with this folder.
    """
    if obstacle := find_obstacle(settings):
        progress(f"Spark starts cold: {obstacle}")
        return None
    java = find_java(os.environ)
    release = read_release(java) if java else None
    variables = launch_variables(os.environ)
    facts = gather_facts(
        java=f"{java} {release.text if release else ''}",
        jars_dir=spark.jars_dir,
        class_path=class_path,
        java_options=java_options,
        settings=settings,
        environ=variables,
        directory=os.getcwd(),
    )

    def launch(folder: Path) -> dict[str, Any]:
        """What PySpark would start. Any: values of JSON."""
        given = {**launch_settings(settings), **launched(folder)}
        words = [word for pair in given.items() for word in ("--conf", "=".join(pair))]
        submit = spark.jars_dir.parent / "bin" / "spark-submit"
        shell = shlex.split(variables.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
        own = {
            "PATH": os.environ.get("PATH", os.defpath),
            "SPARK_LAUNCHER_OPTS": launcher_options,
        }
        return {
            "command": [str(submit), *words, *shell],
            "environment": {**own, **variables, "SPARK_CONNECT_MODE": "0"},
            "directory": os.getcwd(),
        }

    return take_lease(default_home(), facts, launch, progress)
