"""The text files beside the segments."""

import uuid
from pathlib import Path

import pytest

from embedkafka.broker.log.files import checkpoints
from embedkafka.broker.log.files.checkpoints import CorruptCheckpoint, MetaProperties
from embedkafka.runtime.files import SystemFiles
from embedkafka.runtime.ids import TopicPartition

FILES = SystemFiles()


def test_offsets_are_written_one_a_line_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "recovery-point-offset-checkpoint"
    offsets = {TopicPartition("orders", 0): 5, TopicPartition("a.b_c", 11): 2**40}
    checkpoints.write_offsets(FILES, path, offsets)
    assert path.read_text() == f"0\n2\norders 0 5\na.b_c 11 {2**40}\n"
    assert checkpoints.read_offsets(FILES, path) == offsets
    assert not list(tmp_path.glob("*.tmp"))


@pytest.mark.parametrize("text", [None, ""])
def test_a_missing_or_empty_checkpoint_holds_nothing(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "checkpoint"
    if text is not None:
        path.write_text(text)
    assert checkpoints.read_offsets(FILES, path) == {}
    assert checkpoints.read_epochs(FILES, path) == []


@pytest.mark.parametrize(
    "text",
    [
        "1\n0\n",
        "0\n",
        "0\n2\norders 0 5\n",
        "0\n1\norders 0\n",
        "0\n1\norders x 5\n",
        "0\n1\norders 0 \x83",
    ],
)
def test_a_malformed_checkpoint_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "checkpoint"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(CorruptCheckpoint, match="checkpoint"):
        checkpoints.read_offsets(FILES, path)


def test_the_topic_id_is_written_as_kafka_spells_it(tmp_path: Path) -> None:
    topic_id = uuid.UUID("b8d131c5-2a3d-4b3f-9f1e-0a0b0c0d0e0f")
    assert checkpoints.read_topic_id(FILES, tmp_path) is None
    checkpoints.write_topic_id(FILES, tmp_path, topic_id)
    text = (tmp_path / "partition.metadata").read_text()
    assert text == "version: 0\ntopic_id: uNExxSo9Sz-fHgoLDA0ODw"
    assert checkpoints.read_topic_id(FILES, tmp_path) == topic_id


@pytest.mark.parametrize("text", ["version: 1\ntopic_id: x", "version: 0\n", "rubbish"])
def test_malformed_partition_metadata_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "partition.metadata").write_text(text)
    with pytest.raises(CorruptCheckpoint, match=r"partition\.metadata"):
        checkpoints.read_topic_id(FILES, tmp_path)


@pytest.mark.parametrize("text", ["", "\0\0\0\0"])
def test_partition_metadata_that_a_power_loss_has_emptied_counts_as_missing(
    tmp_path: Path, text: str
) -> None:
    (tmp_path / "partition.metadata").write_text(text)
    assert checkpoints.read_topic_id(FILES, tmp_path) is None


def test_meta_properties_tell_broker_and_cluster(tmp_path: Path) -> None:
    assert checkpoints.read_meta_properties(FILES, tmp_path) is None
    meta = MetaProperties(broker_id=3, cluster_id="abc")
    checkpoints.write_meta_properties(FILES, tmp_path, meta)
    assert checkpoints.read_meta_properties(FILES, tmp_path) == meta


def test_meta_properties_of_a_kraft_broker_are_understood(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text(
        "#\n#Mon Nov 16 09:00:00 UTC 2026\ncluster.id=xyz\ndirectory.id=q\nnode.id=7\nversion=1\n"
    )
    assert checkpoints.read_meta_properties(FILES, tmp_path) == MetaProperties(
        broker_id=7, cluster_id="xyz"
    )
