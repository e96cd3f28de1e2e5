"""Clusters that cannot serve a test say so before its first query."""

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.java_tools.jvm import java
from tests.java_tools.oracle import ApacheKafka
from tests.java_tools.ports import free_ports
from tests.java_tools.spark_connect import spark_connect
from tests.java_tools.spark_standalone import SparkStandalone

pytestmark = [
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.java,
    pytest.mark.timeout(600),
]

PASSWORD: Final = "changeit"
LOGIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule required"


def run_alone(program: str, *arguments: str) -> str:
    """Runs a program in a process of its own, because one process has one Spark; its output."""
    command = [sys.executable, "-c", textwrap.dedent(program), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def test_a_connect_server_without_the_connector_is_refused() -> None:
    pytest.importorskip("grpc", reason="pip install 'pyspark[connect]'")
    with spark_connect(connector=False) as address:
        said = run_alone(
            """
            import sys
            from embedkafka.spark.connector.jars import ConnectorNotFound
            from embedkafka.spark.remote import connect_session
            try:
                with connect_session(sys.argv[1]):
                    print("a session")
            except ConnectorNotFound as error:
                print(error)
            """,
            address,
        )
    assert f"the Spark Connect server {address} cannot read Kafka" in said
    assert "--packages org.apache.spark:spark-sql-kafka-0-10_2.13:" in said


def test_a_cluster_without_workers_is_refused() -> None:
    with SparkStandalone(workers=0) as cluster:
        said = run_alone(
            """
            import sys
            from embedkafka.spark.remote import SparkUnreachable, cluster_session
            try:
                with cluster_session(sys.argv[1], timeout_s=3):
                    print("a session")
            except SparkUnreachable as error:
                print(error)
            """,
            cluster.url,
        )
    assert f"{cluster.url} gave no executor in 3 s" in said


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[str]:
    """The client properties of an Apache Kafka that wants TLS and a password."""
    store, certificate = tmp_path / "broker.p12", tmp_path / "ca.pem"
    common = ["-alias", "broker", "-keystore", str(store), "-storepass", PASSWORD]
    name = ["-dname", "CN=127.0.0.1", "-ext", "SAN=ip:127.0.0.1", "-ext", "bc=ca:true"]
    key = ["-keyalg", "RSA", "-storetype", "PKCS12", "-validity", "2"]
    _keytool("-genkeypair", *common, *name, *key)
    _keytool("-exportcert", "-rfc", *common, "-file", str(certificate))
    (port,) = free_ports(1)
    config = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SAFE:SASL_SSL",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.safe.plain.sasl.jaas.config": f'{LOGIN} user_alice="it\'s secret";',
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": store,
        "ssl.keystore.password": PASSWORD,
    }
    with ApacheKafka(config=config, more_listeners={"SAFE": port}):
        yield textwrap.dedent(
            f"""
            bootstrap.servers=127.0.0.1:{port}
            security.protocol=SASL_SSL
            sasl.mechanism=PLAIN
            sasl.jaas.config={LOGIN} \\
                username="alice" password="it's secret";
            ssl.truststore.type=PEM
            ssl.truststore.location={certificate}
            """
        )


def test_credentials_reach_topic_handles_and_spark(secured: str, tmp_path: Path) -> None:
    (tmp_path / "client.properties").write_text(secured)
    (tmp_path / "wrong.properties").write_text(secured.replace("it's secret", "guess"))
    (tmp_path / "test_secured.py").write_text(
        textwrap.dedent(
            """
            def test_topic(kafka_topic, spark):
                kafka_topic.send("by hand")
                kafka_topic.write(spark.createDataFrame([("by Spark",)], "value string"))
                read = {row.value for row in kafka_topic.to_df(spark).collect()}
                assert read == {"by hand", "by Spark"} == {m.text for m in kafka_topic.read()}
            """
        )
    )
    right = _pytest(tmp_path, "client.properties")
    assert right.returncode == 0, right.stdout[-6000:]
    wrong = _pytest(tmp_path, "wrong.properties")
    assert "no broker answers" in wrong.stderr, wrong.stdout + wrong.stderr
    assert "Authentication failed" in wrong.stderr


def _pytest(folder: Path, client_config: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", "."]
    return subprocess.run(
        [*command, "--kafka-client-config", client_config, "test_secured.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )


def _keytool(*arguments: str) -> None:
    subprocess.run([java("keytool"), *arguments], check=True, capture_output=True, timeout=60)
