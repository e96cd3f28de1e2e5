"""What a test leaves in use: groups with members, open transactions, connected clients, clusters.

A leak is a warning, or with `--kafka-strict` an error. A test that failed is not told of them.
"""

import sys
import warnings
from collections.abc import Sequence

import pytest

_RESOURCES = "embedkafka.cluster.resources"


class KafkaLeakWarning(pytest.PytestWarning):
    """A test has left something of Kafka in use."""


def tell_of_leaks(leaks: Sequence[str], *, is_strict: bool) -> None:
    """Warns of leaks, or fails the test."""
    __tracebackhide__ = True
    said = (
        f"the test left in use: {'; '.join(leaks)}. Close consumers, producers and clusters, also "
        "when an assertion fails: `kafka_consumer` and its siblings do it for you"
    )
    if is_strict:
        pytest.fail(said, pytrace=False)
    warnings.warn(KafkaLeakWarning(said), stacklevel=2)


def find_running() -> dict[int, str]:
    """The clusters that run in this process, with their directories."""
    resources = sys.modules.get(_RESOURCES)
    running: dict[int, str] = {} if resources is None else resources.describe_live()
    return running


def find_left_running(before: dict[int, str]) -> list[str]:
    """Says which clusters have started since and still run, with their threads and files."""
    left = find_running().items() - before.items()
    return [f"a cluster runs, with its threads and the files in {path}" for _, path in sorted(left)]
