import subprocess
import sys

import pytest

import embedkafka


def test_every_public_name_can_be_had():
    assert set(embedkafka.__all__) == set(embedkafka._HOMES)
    for name in embedkafka.__all__:
        assert getattr(embedkafka, name).__name__ == name


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Zookeeper'"):
        _ = embedkafka.Zookeeper


def test_importing_the_package_loads_nothing_heavy():
    code = (
        "import embedkafka, sys; print(*(m for m in sys.modules if m.startswith('embedkafka.')));"
        "from embedkafka import EmbeddedKafka;"
        "print(*({'pyspark', 'confluent_kafka', 'kazoo', 'crc32c', 'lz4', 'zstandard'}"
        " & set(sys.modules)))"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert loaded.stdout.split() == []
