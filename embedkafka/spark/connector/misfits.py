"""Tells why a set of jars does not fit the installed Spark.

Jars of Spark's own release fit if they are complete. Those of a lower release must also link.
"""

import re
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from embedkafka.spark.connector.artifacts import (
    connector_artifact,
    connector_artifacts,
    problems_with,
)
from embedkafka.spark.connector.installed import InstalledSpark
from embedkafka.spark.connector.jar_cache import JarCache

#: The package of the token provider, which the connector uses too.
_TOKEN_PROVIDER: Final = "org.apache.spark.kafka010."


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfit:
    """The reason, and the name of the artifact to try in a lower release."""

    reason: str
    artifact: str
    #: The release of Spark that both jars belong to.
    fits_spark: str | None = None


def find_misfit(jars: Sequence[Path], spark: InstalledSpark, cache: JarCache) -> Misfit | None:
    """None if the jars fit."""
    connector = connector_artifact(spark.scala).name
    if problems := problems_with(jars, spark):
        return Misfit(reason="; ".join(problems), artifact=connector)
    if not stand_ins(jars, spark):
        return None
    own = _own_jars(jars, spark.scala)
    unlinked = find_unlinked([jar for jar, _ in own], spark, cache)
    if unlinked is None:
        return None
    releases = {release for _, release in own}
    by_connector = unlinked.jar in (None, own[0][0].name) and not unlinked.by_token_provider
    return Misfit(
        reason=unlinked.reason,
        artifact=connector if by_connector else connector_artifacts(spark.scala)[1].name,
        fits_spark=releases.pop() if unlinked.jar and len(releases) == 1 else None,
    )


def find_misfit_of_stand_in(
    jars: Sequence[Path],
    spark: InstalledSpark,
    cache: JarCache,
    *,
    marker: str,
    is_exact: bool,
    fits_spark: str | None = None,
) -> Misfit | None:
    """Why this module does not fit; None if it does. The first jar has the class `marker`.

    What is made for this Spark (`is_exact`) need not be linked.
    """
    jar = jars[0]
    name = re.sub(r"-\d+\.[\w.-]*\.jar$", "", jar.name)
    try:
        with zipfile.ZipFile(jar) as opened:
            if marker not in opened.namelist():
                return Misfit(reason=f"{jar} is another jar", artifact=name)
    except (OSError, zipfile.BadZipFile) as error:
        return Misfit(reason=f"{jar} is not a readable jar ({error})", artifact=name)
    if is_exact:
        return None
    unlinked = find_unlinked(jars, spark, cache)
    if unlinked is None:
        return None
    return Misfit(reason=unlinked.reason, artifact=name, fits_spark=fits_spark)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unlinked:
    """Why jars do not link with Spark, and which of them; None if they cannot be read."""

    reason: str
    jar: str | None = None
    by_token_provider: bool = False


def find_unlinked(jars: Sequence[Path], spark: InstalledSpark, cache: JarCache) -> Unlinked | None:
    """None if all that these jars need of Spark is in them or in Spark."""
    # Loaded only here: most machines have the exact release.
    from embedkafka.spark.connector.class_files import BadClassFile
    from embedkafka.spark.connector.linkage import find_missing_symbol

    try:
        missing = find_missing_symbol(jars, spark, cache)
    except (OSError, zipfile.BadZipFile, BadClassFile) as error:
        return Unlinked(reason=f"cannot be checked: {error}")
    if missing is None:
        return None
    return Unlinked(
        reason=f"{missing}, which {spark} lacks",
        jar=missing.jar,
        by_token_provider=missing.owner.startswith(_TOKEN_PROVIDER),
    )


def stand_ins(jars: Sequence[Path], spark: InstalledSpark) -> list[str]:
    """The names of connector jars that are of another release than Spark."""
    return [jar.name for jar, release in _own_jars(jars, spark.scala) if release != spark.release]


def _own_jars(jars: Sequence[Path], scala: str) -> list[tuple[Path, str]]:
    """The connector and the token provider, with their releases, as far as names tell."""
    return [
        (jar, release)
        for artifact in connector_artifacts(scala)[:2]
        for jar in jars
        if (release := artifact.find_release(jar.name))
    ]
