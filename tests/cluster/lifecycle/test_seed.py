"""`seed=` repeats a cluster's random choices: ids, names and the placement of replicas."""

from pathlib import Path
from typing import Any

from embedkafka import EmbeddedKafka


def choices(kafka: EmbeddedKafka) -> tuple[Any, Any, Any, Any, list[Any]]:
    named, unnamed = kafka.topic("orders", partitions=3), kafka.topic()
    ids = kafka._require_brokers().zk.topic_ids()
    placed = [
        kafka.existing_topic("orders").partition(partition).replicas for partition in range(3)
    ]
    return kafka.cluster_id, unnamed.name, ids[named.name], ids[unnamed.name], placed


def test_two_clusters_of_one_seed_choose_alike() -> None:
    with EmbeddedKafka(brokers=3, seed=7) as one, EmbeddedKafka(brokers=3, seed=7) as other:
        assert choices(one) == choices(other)


def test_clusters_of_different_seeds_choose_differently() -> None:
    with EmbeddedKafka(seed=7) as one, EmbeddedKafka(seed=8) as other, EmbeddedKafka() as third:
        first, second, fourth = choices(one), choices(other), choices(third)
    assert all(len(set(each)) == 3 for each in list(zip(first, second, fourth, strict=True))[:4])


def test_a_later_cluster_in_the_same_directory_gives_out_other_ids(tmp_path: Path) -> None:
    """If ids repeated, a new topic would be mistaken for an earlier one."""
    with EmbeddedKafka(seed=7, data_dir=tmp_path) as kafka:
        cluster_id, name, *before, _ = choices(kafka)
        kafka.existing_topic("orders").delete()
    with EmbeddedKafka(seed=7, data_dir=tmp_path) as kafka:
        same_id, other_name, *after, _ = choices(kafka)
    assert same_id == cluster_id
    assert other_name != name
    assert set(before).isdisjoint(after)
