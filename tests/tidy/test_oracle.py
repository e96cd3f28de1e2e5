"""The list of differences to Apache Kafka 3.9 names existing tests.

Otherwise a stale name would go unnoticed until the nightly run on 3.9.
"""

from pathlib import Path

import pytest

from tests.wire.kafka_3_9 import DIFFERENCES

WIRE = Path(__file__).parents[1] / "wire"
NAMED = sorted(
    {
        (module, name.partition("[")[0])
        for modules in DIFFERENCES.values()
        for module, names in modules.items()
        for name in names
    }
)


@pytest.mark.parametrize(("module", "test"), NAMED)
def test_a_difference_names_a_test_that_exists(module: str, test: str) -> None:
    (path,) = WIRE.rglob(module)
    assert f"def {test}" in path.read_text()
