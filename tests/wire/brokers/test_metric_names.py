"""Our metrics have the names of Apache Kafka's beans."""

import re
from pathlib import Path
from typing import Final

import pytest

from embedkafka import EmbeddedKafka
from tests.java_tools.oracle import TUNED_FLAGS, ApacheKafka, KafkaTool
from tests.java_tools.ports import free_ports
from tests.wire.clients import Cluster, Out, await_coordinators, create_topic, produce

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(300)]

ONLY_OURS: Final = {
    "ExpiredGroups",
    "GroupLag",
    "MutedChannels",
    "NumOpenTransactions",
}
OF_ZOOKEEPERS_TIME: Final = re.compile(
    r"kafka\.controller:type=(ControllerChannelManager|ControllerStats),"
    r"|type=ControllerEventManager,name=EventQueueSize"
    r"|type=KafkaController,name=(ControllerState|\w+ToDeleteCount)"
    r"|name=ControlPlane"
)
"""Names of Kafka 2.x's controller, which KRaft's does not have."""
TOPIC: Final = "measured"


def use(bootstrap_servers: str) -> None:
    """Writes to a topic, so that there are metrics of requests, topics and logs."""
    cluster = Cluster(kind="any", bootstrap_servers=bootstrap_servers)
    await_coordinators(cluster)
    create_topic(cluster, TOPIC)
    produce(cluster, TOPIC, [Out(value=b"a")])


def beans(directory: Path) -> str:
    """The line in which Kafka's tool names all attributes of a used broker's beans."""
    (port,) = free_ports(1)
    exported = {"port": port, "rmi.port": port, "authenticate": "false", "ssl": "false"}
    flags = [f"-Dcom.sun.management.jmxremote.{key}={value}" for key, value in exported.items()]
    with ApacheKafka(jvm=(*TUNED_FLAGS, *flags, "-Djava.rmi.server.hostname=127.0.0.1")) as kafka:
        use(kafka.bootstrap_servers)
        url = f"service:jmx:rmi:///jndi/rmi://127.0.0.1:{port}/jmxrmi"
        tool = KafkaTool(
            version=kafka.version,
            flags=TUNED_FLAGS,
            main_class="org.apache.kafka.tools.JmxTool",
            arguments=["--jmx-url", url, "--one-time"],
            log=directory / "beans.out",
        )
        tool.await_success()
    return tool.log.read_text()


def test_metrics_are_named_as_apache_kafkas_beans(tmp_path: Path) -> None:
    with EmbeddedKafka() as kafka:
        kafka.metrics()
        use(kafka.bootstrap_servers)
        ours = {f"{metric.group},name={metric.name}" for metric in kafka.metrics()}
    theirs = beans(tmp_path)
    unknown = {name for name in ours if not is_known(name, theirs)}
    others = {name for name in unknown if not OF_ZOOKEEPERS_TIME.search(name)}
    assert {name.rpartition("=")[2] for name in others} <= ONLY_OURS
    assert len(ours) > 20
    assert len(ours - unknown) > 50


def is_known(name: str, theirs: str) -> bool:
    """As a bean, as what its last part counts, or as an attribute of its group."""
    group, _, attribute = name.partition(",name=")
    bean, _, counted = name.rpartition(".")
    return (
        any(f"{name}{end}" in theirs for end in ",:")
        or f"{bean}:{counted}" in theirs
        or re.search(rf"{re.escape(group)}[^\"]*:{re.escape(attribute)}\"", theirs) is not None
    )
