"""Classes in front of Spark's in the JVM of a local session, which save work that no test sees.

`LocalFiles`: Hadoop runs `chmod` for every file and folder of a checkpoint, 26 times for a small
query. Ours sets the same permissions without a process.
`InternalFunctionRegistration`: Spark 4.0 starts Scala's reflection in every session for three
functions of MLlib. Ours lets Spark do so when one of them is first used.
`SerializableConfiguration`: each stateful operator of each batch broadcasts Hadoop's configuration,
which runs a compressor for each of a thousand properties. Ours writes the same with a few runs.
Janino: the same classes, without their signatures (`unsigned_jars`).

The sources of ours are in `jvm`, with the jars that `python ci/spark_classes.py` makes of them.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from embedkafka.spark.connector.installed import InstalledSpark, release_numbers
from embedkafka.spark.unsigned_jars import unsigned_jars

#: The conf key that leaves them out, with the value `false`.
SWITCH: Final = "spark.embedkafka.quickClasses"

HOME: Final = Path(__file__).with_name("jvm")
LOCAL_FILES: Final = HOME / "local-files.jar"
SPARK_4_0: Final = HOME / "spark-4.0.jar"

_SETTINGS: Final[Mapping[str, str]] = {"spark.hadoop.fs.file.impl": "embedkafka.LocalFiles"}
_REPLACED_RELEASE: Final = (4, 0)
"""Another one may do something else in these classes."""


def quick_classes(
    spark: InstalledSpark, master: str, config: Mapping[str, str], *, cache: Path
) -> tuple[list[Path], dict[str, str]]:
    """The jars for the front of the class path, and the settings that use them.

    Executors of their own would have another class path.
    """
    if not wants_quick_classes(master, config):
        return [], {}
    jars = [LOCAL_FILES]
    if release_numbers(spark.release)[:2] == _REPLACED_RELEASE:
        jars.append(SPARK_4_0)
    jars += unsigned_jars(spark.jars_dir, cache / "unsigned-jars")
    return jars, dict(_SETTINGS)


def wants_quick_classes(master: str, config: Mapping[str, str]) -> bool:
    """Whether the driver's JVM runs everything, and the caller has not said no."""
    is_local = master == "local" or master.startswith("local[")
    return is_local and config.get(SWITCH) != "false"
