"""Classes in front of Spark's in the JVM of a local session, which save work that no test sees.

`LocalFiles`: Hadoop runs `chmod` for every file and folder of a checkpoint, 26 times for a small
query. Ours sets the same permissions without a process.
`InternalFunctionRegistration`: Spark 4.0 starts Scala's reflection in every session for three
functions of MLlib. Ours lets Spark do so when one of them is first used.
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
LAZY_MLLIB: Final = HOME / "lazy-mllib-4.0.jar"

_SETTINGS: Final[Mapping[str, str]] = {"spark.hadoop.fs.file.impl": "embedkafka.LocalFiles"}
_REGISTRATION_RELEASE: Final = (4, 0)
"""Another one may register other functions, or not in this class."""


def quick_classes(
    spark: InstalledSpark, master: str, config: Mapping[str, str], *, cache: Path
) -> tuple[list[Path], dict[str, str]]:
    """The jars for the front of the class path, and the settings that use them.

    Only where the driver's JVM runs everything: executors have another class path.
    """
    if not (master == "local" or master.startswith("local[")) or config.get(SWITCH) == "false":
        return [], {}
    jars = [LOCAL_FILES]
    if release_numbers(spark.release)[:2] == _REGISTRATION_RELEASE:
        jars.append(LAZY_MLLIB)
    jars += unsigned_jars(spark.jars_dir, cache / "unsigned-jars")
    return jars, dict(_SETTINGS)
