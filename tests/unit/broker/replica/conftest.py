"""Clusters of replicas (`tests.doubles.replica_cluster`), closed after the test."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.replica_cluster import Node, ReplicaCluster


@pytest.fixture
def make_cluster(tmp_path: Path) -> Iterator[Callable[..., ReplicaCluster]]:
    made: list[ReplicaCluster] = []

    def make(**settings: Any) -> ReplicaCluster:
        made.append(ReplicaCluster(tmp_path / str(len(made)), **settings))
        return made[-1]

    yield make
    for cluster in made:
        cluster.close()


@pytest.fixture
def cluster(make_cluster: Callable[..., ReplicaCluster]) -> ReplicaCluster:
    """Three brokers; nothing is led yet."""
    return make_cluster()


@pytest.fixture
def threaded_cluster(make_cluster: Callable[..., ReplicaCluster]) -> ReplicaCluster:
    """Three brokers whose followers fetch on threads of their own."""
    return make_cluster(threaded=True)


@pytest.fixture
def single(make_cluster: Callable[..., ReplicaCluster]) -> Node:
    """One broker that leads `orders-0` alone."""
    cluster = make_cluster(brokers=1)
    cluster.elect(1)
    return cluster[1]
