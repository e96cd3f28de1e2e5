"""kafka-metadata-quorum.sh, kafka-features.sh and kafka-cluster.sh print what KRaft prints."""

import json
from collections.abc import Callable, Iterator

import pytest

from embedkafka.wire.protocol.messages.core import MetadataRequest
from tests.java_tools.command_line import run_tool
from tests.wire.clients import Cluster
from tests.wire.quorum import controllers

pytestmark = [pytest.mark.java, pytest.mark.gate]

QUORUM = "org.apache.kafka.tools.MetadataQuorumCommand"
FEATURES = "org.apache.kafka.tools.FeatureCommand"
CLUSTER = "org.apache.kafka.tools.ClusterTool"


def at_brokers(cluster: Cluster) -> tuple[str, str]:
    return "--bootstrap-server", cluster.bootstrap_servers


def at_controllers(cluster: Cluster) -> tuple[str, str]:
    with cluster.connect() as raw:
        addresses = controllers(raw).values()
    return "--bootstrap-controller", ",".join(f"{host}:{port}" for host, port in addresses)


def rows(printed: str) -> Iterator[dict[str, str]]:
    """The rows of a table under its headings."""
    heading, *lines = printed.splitlines()
    for line in lines:
        yield dict(zip(heading.split(), line.split(), strict=True))


def test_metadata_quorum_shows_leader_and_voters(three_brokers: Cluster) -> None:
    printed = run_tool(QUORUM, *at_brokers(three_brokers), "describe", "--status")
    status = dict(line.split(":", 1) for line in printed.splitlines())
    with three_brokers.connect() as raw:
        own = raw.call(MetadataRequest(topics=[]), 8).cluster_id
        known = controllers(raw)
    assert status["ClusterId"].strip() == own
    assert int(status["LeaderId"]) in known
    assert int(status["HighWatermark"]) > 0
    voters = json.loads(status["CurrentVoters"])
    assert {voter["id"]: voter["endpoints"] for voter in voters} == {
        node: [f"CONTROLLER://{host}:{port}"] for node, (host, port) in known.items()
    }
    assert json.loads(status["CurrentObservers"]) == []

    printed = run_tool(QUORUM, *at_controllers(three_brokers), "describe", "--replication")
    replicas = {row["NodeId"]: row for row in rows(printed)}
    assert set(replicas) == {"1", "2", "3"}
    assert sorted(row["Status"] for row in replicas.values()) == [
        "Follower",
        "Follower",
        "Leader",
    ]
    assert replicas[status["LeaderId"].strip()]["Lag"] == "0"


def test_metadata_quorum_cannot_change_the_voters(cluster: Cluster) -> None:
    printed = run_tool(
        QUORUM,
        *at_brokers(cluster),
        *("remove-controller", "--controller-id", "1"),
        *("--controller-directory-id", "AAAAAAAAAAAAAAAAAAAABQ"),
        exit_code=1,
    )
    assert "UnsupportedVersionException: Cluster doesn't support removing voter" in printed


@pytest.mark.parametrize("bootstrap", [at_brokers, at_controllers], ids=["brokers", "controllers"])
def test_features_lists_the_metadata_version(
    cluster: Cluster, bootstrap: Callable[[Cluster], tuple[str, str]]
) -> None:
    printed = run_tool(FEATURES, *bootstrap(cluster), "describe")
    features = {}
    for line in printed.splitlines():
        words = line.replace(":", "").split()
        row = dict(zip(words[::2], words[1::2], strict=True))
        features[row["Feature"]] = row
    assert {"group.version", "kraft.version", "metadata.version", "transaction.version"} <= set(
        features
    )
    metadata = features["metadata.version"]
    assert metadata["SupportedMinVersion"] == "3.3-IV3"
    assert metadata["FinalizedVersionLevel"] == metadata["SupportedMaxVersion"] == "4.3-IV0"
    assert features["kraft.version"]["FinalizedVersionLevel"] == "0"


def test_cluster_shows_its_id_and_where_its_nodes_answer(three_brokers: Cluster) -> None:
    with three_brokers.connect() as raw:
        own = raw.call(MetadataRequest(topics=[]), 8).cluster_id
        known = controllers(raw)
    printed = run_tool(CLUSTER, "cluster-id", *at_brokers(three_brokers))
    assert printed.strip() == f"Cluster ID: {own}"

    printed = run_tool(
        CLUSTER, "list-endpoints", *at_brokers(three_brokers), "--include-fenced-brokers"
    )
    listed = list(rows(printed))
    assert {f"{row['HOST']}:{row['PORT']}" for row in listed} == set(
        three_brokers.bootstrap_servers.split(",")
    )
    assert {(row["STATE"], row["ENDPOINT_TYPE"]) for row in listed} == {("unfenced", "broker")}

    printed = run_tool(CLUSTER, "list-endpoints", *at_controllers(three_brokers))
    assert {
        int(row["ID"]): (row["HOST"], int(row["PORT"]), row["ENDPOINT_TYPE"])
        for row in rows(printed)
    } == {node: (host, port, "controller") for node, (host, port) in known.items()}


def test_cluster_cannot_unregister_a_broker_that_never_was(cluster: Cluster) -> None:
    printed = run_tool(CLUSTER, "unregister", *at_brokers(cluster), "--id", "99", exit_code=1)
    assert "BrokerIdNotRegisteredException: Broker ID 99 is not currently registered" in printed
