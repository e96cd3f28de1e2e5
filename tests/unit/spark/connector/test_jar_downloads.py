"""What a failed download says. The outputs are those of Maven 3.8.7 runs that failed like this."""

import sys
from pathlib import Path

import pytest

from embedkafka.spark.connector.jar_downloads import DownloadFailed, Maven, Wanted

RECORDED = Path(__file__).parent / "maven_failures"
CENTRAL = "https://repo.example/maven2"
SQL, TOKENS = "spark-sql-kafka-0-10_2.13", "spark-token-provider-kafka-0-10_2.13"


def failure_of(output: Path, folder: Path) -> DownloadFailed:
    """What is raised if `mvn` prints this and fails."""
    mvn = folder / "mvn"
    mvn.write_text(f"#!{sys.executable}\nprint(open({str(output)!r}).read())\nraise SystemExit(1)")
    mvn.chmod(0o755)
    wanted = Wanted.connector("2.13", "9.9.9", "9.9.9")
    with pytest.raises(DownloadFailed) as failed:
        Maven(command=str(mvn)).download(wanted, folder)
    return failed.value


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (
            "absent",
            f"Could not find artifact org.apache.spark:{SQL}:jar:9.9.9 in central ({CENTRAL})",
        ),
        (
            "absent_again",
            f"org.apache.spark:{SQL}:jar:9.9.9 was not found in {CENTRAL} during a previous "
            "attempt. This failure was cached in the local repository",
        ),
        (
            "offline",
            f"Cannot access central ({CENTRAL}) in offline mode and the artifact "
            f"org.apache.spark:{SQL}:jar:9.9.8 has not been downloaded from it before.",
        ),
        (
            "refused",
            f"Could not transfer artifact org.apache.spark:{SQL}:pom:9.9.6 from/to central "
            f"({CENTRAL}): transfer failed for {CENTRAL}/org/apache/spark/{SQL}/9.9.6/"
            f"{SQL}-9.9.6.pom: Connect to 127.0.0.1:9 [/127.0.0.1] failed: Connection refused",
        ),
        ("no_plugin", "No plugin found for prefix 'dependency' in the current project"),
    ],
)
def test_the_reason_is_mavens_cause(name: str, reason: str, tmp_path: Path) -> None:
    said = str(failure_of(RECORDED / f"{name}.txt", tmp_path))
    assert said.startswith(reason)
    assert not any(noise in said for noise in ("\x1b", "Help 1", "re-run Maven"))


@pytest.mark.parametrize(
    ("name", "unfit"),
    [("absent", {SQL}), ("absent_again", {SQL}), ("offline", set()), ("refused", set())],
)
def test_only_a_repository_that_answered_lacks_a_release(
    name: str, unfit: set[str], tmp_path: Path
) -> None:
    assert failure_of(RECORDED / f"{name}.txt", tmp_path).unfit == unfit
