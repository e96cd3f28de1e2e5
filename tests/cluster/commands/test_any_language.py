"""`embedkafka up` for programs in any language: kcat, Java, Node and Go, with their own clients."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.java_tools.compiler import compiled
from tests.java_tools.java_client import LIBRARIES, RELEASES
from tests.java_tools.jvm import java
from tests.java_tools.maven import classpath

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

UP = [sys.executable, "-m", "embedkafka.cli", "up", "--brokers", "3", "--topic", "orders:3:3", "--"]

JAVA = """
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class Orders {
  public static void main(String[] arguments) throws Exception {
    String servers = System.getenv("KAFKA_BOOTSTRAP_SERVERS");
    Map<String, Object> sending = Map.of("bootstrap.servers", servers);
    try (var producer =
        new KafkaProducer<>(sending, new StringSerializer(), new StringSerializer())) {
      producer.send(new ProducerRecord<>("orders", "k", "from java")).get();
    }
    Map<String, Object> reading =
        Map.of("bootstrap.servers", servers, "group.id", "java", "auto.offset.reset", "earliest");
    try (var consumer =
        new KafkaConsumer<>(reading, new StringDeserializer(), new StringDeserializer())) {
      consumer.subscribe(List.of("orders"));
      var records = consumer.poll(Duration.ofSeconds(1));
      while (records.isEmpty()) records = consumer.poll(Duration.ofSeconds(1));
      for (var record : records) System.out.println(record.value());
      consumer.commitSync();
    }
  }
}
"""

NODE = """
const { Kafka, logLevel } = require("kafkajs");
const brokers = process.env.KAFKA_BOOTSTRAP_SERVERS.split(",");
const kafka = new Kafka({ brokers, logLevel: logLevel.NOTHING });
(async () => {
  const producer = kafka.producer(), consumer = kafka.consumer({ groupId: "node" });
  await producer.connect();
  await producer.send({ topic: "orders", messages: [{ key: "k", value: "from node" }] });
  await consumer.connect();
  await consumer.subscribe({ topic: "orders", fromBeginning: true });
  await consumer.run({ eachMessage: async ({ message }) => {
    console.log(message.value.toString());
    process.exit(0);
  } });
})().catch((error) => { console.error(error); process.exit(1); });
"""

GO = """
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"
)

func main() {
	brokers := strings.Split(os.Getenv("KAFKA_BOOTSTRAP_SERVERS"), ",")
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	writer := &kafka.Writer{Addr: kafka.TCP(brokers...), Topic: "orders"}
	sent := kafka.Message{Key: []byte("k"), Value: []byte("from go")}
	if err := writer.WriteMessages(ctx, sent); err != nil {
		panic(err)
	}
	reader := kafka.NewReader(kafka.ReaderConfig{Brokers: brokers, GroupID: "go", Topic: "orders"})
	message, err := reader.ReadMessage(ctx)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(message.Value))
	reader.Close()
}
"""


def require(*tools: str) -> None:
    for tool in tools:
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")


def fetched(command: list[str], directory: Path) -> None:
    """Runs a package manager; without a network there is nothing to test."""
    done = subprocess.run(
        command, cwd=directory, capture_output=True, text=True, timeout=300, check=False
    )
    if done.returncode:
        pytest.skip(f"{' '.join(command)} failed: {done.stderr[-300:]}")


def output(command: list[str], directory: Path) -> str:
    done = subprocess.run(
        [*UP, *command], cwd=directory, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_kcat_writes_and_reads(tmp_path: Path) -> None:
    require("kcat")
    script = (
        'echo "k:from kcat" | kcat -P -b "$KAFKA_BOOTSTRAP_SERVERS" -t orders -K : && '
        'kcat -C -b "$KAFKA_BOOTSTRAP_SERVERS" -t orders -o beginning -e -q -f "%k %s\\n"'
    )
    assert output(["sh", "-c", script], tmp_path) == "k from kcat\n"


def test_a_java_client_writes_and_reads_in_a_group(tmp_path: Path) -> None:
    (source := tmp_path / "Orders.java").write_text(JAVA)
    libraries = classpath(f"org.apache.kafka:kafka-clients:{RELEASES['4']}", *LIBRARIES)
    class_path = compiled("orders", [source], libraries)
    assert output([java("java"), "-cp", class_path, "Orders"], tmp_path) == "from java\n"


def test_kafkajs_writes_and_reads_in_a_group(tmp_path: Path) -> None:
    require("node", "npm")
    fetched(["npm", "install", "--no-audit", "--no-fund", "kafkajs@2"], tmp_path)
    (tmp_path / "main.js").write_text(NODE)
    assert output(["node", "main.js"], tmp_path) == "from node\n"


def test_a_go_client_writes_and_reads_in_a_group(tmp_path: Path) -> None:
    require("go")
    (tmp_path / "main.go").write_text(GO)
    fetched(["go", "mod", "init", "example"], tmp_path)
    fetched(["go", "get", "github.com/segmentio/kafka-go@v0.4.47"], tmp_path)
    fetched(["go", "build", "-o", "client", "."], tmp_path)
    assert output([os.fspath(tmp_path / "client")], tmp_path) == "from go\n"
