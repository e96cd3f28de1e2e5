"""The page without a browser: its server, its recorder, its decoding."""

import json
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from embedkafka import EmbeddedKafka, EmbedKafkaError, Security
from embedkafka.cluster.clients.client_view import ClientView
from embedkafka.page.document import static_page
from embedkafka.page.recorder import Recorder
from embedkafka.page.records import decoded
from embedkafka.page.server import TOKEN_HEADER, PageServer
from embedkafka.page.source import ExternalSource
from embedkafka.page.state import records_of
from embedkafka.page.tail import Tail
from embedkafka.zk.store import SessionExpired


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(brokers=3, topics={"orders": 2}) as kafka:
        kafka.existing_topic("orders").send_json({"id": 1}, key="k", headers={"trace": "x"})
        yield kafka


def ask(page: PageServer, path: str, body: object = None, **headers: str) -> Any:
    return ask_at(page.url, path, body, **headers)


def ask_at(url: str, path: str, body: object = None, **headers: str) -> Any:
    address, _, token = url.partition("/#token=")
    sent = {TOKEN_HEADER: token, **headers}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address + path, data=data, headers=sent)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        error.close()  # it is an answer, too, and holds its socket
        raise


def test_a_live_page_has_the_state_of_the_cluster_and_its_records(kafka: EmbeddedKafka) -> None:
    with kafka.open_ui(browser=False) as page:
        (cluster,) = ask(page, "/api/state")["clusters"]
        state = cluster["state"]
        assert [broker["state"] for broker in state["brokers"]] == ["running"] * 3
        orders = next(topic for topic in state["topics"] if topic["name"] == "orders")
        assert sum(partition["end"] for partition in orders["partitions"]) == 1
        assert state["troubles"] == []
        records: list[Any] = []
        while not records:
            records = ask(page, "/api/records?topic=orders")["records"]
        assert records[0]["key"] == "k"
        assert records[0]["value"] == {"text": '{"id": 1}', "format": "json"}
        assert records[0]["headers"] == [["trace", "x"]]
    assert not [one for one in threading.enumerate() if one.name.startswith("ek-page")]


def test_the_page_of_a_secured_cluster_has_its_records(capfd: pytest.CaptureFixture[str]) -> None:
    secured = Security(protocol="SASL_SSL", mechanism="PLAIN", users={"job": "j-secret"}, acls=[])
    with EmbeddedKafka(security=secured) as kafka:
        kafka.topic("orders").send("kept")
        (kept,) = records_of(kafka._require_brokers(), "orders", 10)
        assert kept["value"]["text"] == "kept"
        with kafka.open_ui(browser=False) as page:
            records: list[Any] = []
            while not records:
                found = ask(page, "/api/records?topic=orders")
                assert found["error"] is None
                records = found["records"]
            assert records[0]["value"]["text"] == "kept"
    assert "Traceback" not in capfd.readouterr().err


def test_a_topic_that_cannot_be_read_is_named_on_the_page(
    kafka: EmbeddedKafka, capfd: pytest.CaptureFixture[str]
) -> None:
    class Unreachable(ClientView):
        def metadata(self) -> Any:  # Any: as in `ClientView`
            raise EmbedKafkaError("no broker answers")

    tail = Tail(Unreachable(kafka.bootstrap_servers), "orders")
    tail.stop()
    assert tail.error == "no broker answers"
    assert "Traceback" not in capfd.readouterr().err


def test_a_page_without_the_token_or_under_another_name_gets_nothing(kafka: EmbeddedKafka) -> None:
    with kafka.open_ui(browser=False) as page:
        port = page.url.split(":")[2].split("/")[0]
        for headers in (
            {TOKEN_HEADER: ""},
            {TOKEN_HEADER: "wrong"},
            {"Host": f"evil.example:{port}"},
            {"Origin": "http://evil.example"},
        ):
            for body in (None, {"action": "kill", "broker": 1}):
                path = "/api/state" if body is None else "/api/act"
                with pytest.raises(urllib.error.HTTPError, match="403"):
                    ask(page, path, body, **headers)
        assert kafka.broker(1).state.value == "running"


def test_a_stranger_neither_holds_the_page_up_nor_writes_to_the_terminal(
    kafka: EmbeddedKafka, capfd: pytest.CaptureFixture[str]
) -> None:
    with kafka.open_ui(browser=False) as page:
        address = ("127.0.0.1", int(page.url.split(":")[2].split("/")[0]))
        with (
            socket.create_connection(address, timeout=30) as silent,
            socket.create_connection(address, timeout=30) as odd,
        ):
            odd.sendall(b"GET //[ HTTP/1.0\r\n\r\n")
            assert odd.recv(12) == b"HTTP/1.0 403"
            assert ask(page, "/api/state")["clusters"]
            page.close()
            assert silent.recv(1) == b""
    assert "Traceback" not in capfd.readouterr().err


def test_buttons_act_and_say_what_they_cannot_do(kafka: EmbeddedKafka) -> None:
    with kafka.open_ui(browser=False) as page:
        ask(page, "/api/act", {"action": "pause", "broker": 2})
        assert kafka.broker(2).state.value == "paused"
        ask(page, "/api/act", {"action": "resume", "broker": 2})
        ask(page, "/api/act", {"action": "partition", "broker": 2})
        assert "! network: 2 | 1, 3" in kafka.describe()
        ask(page, "/api/act", {"action": "heal"})
        kafka.brokers.await_all()
        ask(page, "/api/act", {"action": "advance", "seconds": 60})
        kafka.clock.reset()
        for wrong in (
            {"action": "explode"},
            {"action": "kill", "broker": 9},
            [],
            {"action": "advance"},
        ):
            with pytest.raises(urllib.error.HTTPError, match="400"):
                ask(page, "/api/act", wrong)


def test_a_cluster_elsewhere_can_be_looked_at_and_not_acted_on(kafka: EmbeddedKafka) -> None:
    with PageServer(ExternalSource(lambda: ClientView(kafka.bootstrap_servers))) as page:
        (cluster,) = ask(page, "/api/state")["clusters"]
        assert [broker["id"] for broker in cluster["state"]["brokers"]] == [1, 2, 3]
        assert cluster["state"]["can_act"] is False
        with pytest.raises(urllib.error.HTTPError, match="400"):
            ask(page, "/api/act", {"action": "heal"})


def test_the_command_serves_the_page_of_any_cluster_until_it_is_interrupted(
    kafka: EmbeddedKafka,
) -> None:
    command = [sys.executable, "-m", "embedkafka.cli", "ui", "--no-browser", "--bootstrap"]
    with subprocess.Popen(
        [*command, kafka.bootstrap_servers], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        (cluster,) = ask_at(url, "/api/state")["clusters"]
        assert "orders" in {topic["name"] for topic in cluster["state"]["topics"]}
        address = url.partition("#")[0]
        with urllib.request.urlopen(address, timeout=30) as page:
            assert b"<title>" in page.read()
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0


def test_what_happens_to_a_cluster_is_recorded() -> None:
    with EmbeddedKafka(brokers=3) as kafka:
        recorder = Recorder(kafka, "kafka")
        recorder.start()
        seen = _await(
            recorder, lambda found: any(each["lane"] == "broker 3" for each in found["spans"])
        )
        lanes = {span["lane"] for span in seen["spans"]}
        assert {"broker 1", "broker 2", "broker 3"} <= lanes
        orders = kafka.topic("orders", replication=3)
        orders.send("x")
        leader = orders.leader()
        _await(recorder, lambda found: any(rate > 0 for _, rate in found["throughput"]))
        kafka.broker(leader).kill()
        orders.await_isr(size=2)
        seen = _await(
            recorder,
            lambda found: {"election", "isr"} <= {each["lane"] for each in found["events"]},
        )
        assert (f"broker {leader}", "killed") in {(s["lane"], s["text"]) for s in seen["spans"]}
        handled = [each["text"] for each in seen["spans"] if each["lane"] == "controller"]
        assert any(text.endswith(": TopicChange") for text in handled)
        moves = [each["text"] for each in seen["changes"]]
        assert any("orders-0 NewPartition -> OnlinePartition, leader" in text for text in moves)
        led = f"orders-0 is led by broker {kafka.existing_topic('orders').leader()}"
        _await(recorder, lambda found: led in {each["text"] for each in found["events"]})
        recorder.keep_topics("test_it", None)
        recorder.stop()
        document = recorder.document()
        kafka.topic("afterwards")
        assert recorder.timeline()["changes"] == document["timeline"]["changes"]
        assert not kafka._require_brokers().controller_event_log.is_on
    (kept,) = [topic for topic in document["state"]["topics"] if topic["name"] == "orders"]
    assert (kept["owner"], kept["records"][0]["value"]["text"]) == ("test_it", "x")
    page = static_page({"title": "</script><script>alert(1)</script>", "clusters": [document]})
    assert "<script>alert(1)" not in page


def test_a_recorder_ends_when_its_cluster_does(monkeypatch: pytest.MonkeyPatch) -> None:
    with EmbeddedKafka() as kafka:
        recorder = Recorder(kafka, "kafka")

        def ended() -> None:
            raise SessionExpired

        monkeypatch.setattr(kafka._require_brokers().state, "partitions", ended)
        recorder.start()
        assert recorder._thread is not None
        recorder._thread.join(30)
        assert not recorder._thread.is_alive()
        recorder._failures.check()


def test_values_are_decoded_for_people() -> None:
    assert decoded(None) == {"text": None, "format": "none"}
    assert decoded(b"hello") == {"text": "hello", "format": "text"}
    assert decoded(b'{"a": 1}')["format"] == "json"
    assert decoded(b"\xff\x00") == {"text": "0xff00 (2 bytes)", "format": "hex"}
    assert decoded(b"\x00\x02a") == {"text": "0x000261 (3 bytes)", "format": "hex"}
    assert decoded(b"[" * 100_000)["format"] == "text"
    assert decoded(b"\x02", ord) == {"text": "2", "format": "decoded"}
    assert decoded(b"plain", ord)["text"].startswith("plain, cannot be decoded: TypeError: ord()")


def test_a_leader_that_comes_back_brings_no_new_records() -> None:
    with EmbeddedKafka(brokers=2, topics={"orders": 1}) as kafka:
        kafka.existing_topic("orders").send_many(["a", "b"])
        leader = kafka.existing_topic("orders").leader()
        recorder = Recorder(kafka, "kafka")
        recorder.start()
        _await(recorder, lambda found: found["throughput"])
        kafka.broker(leader).kill()
        died = {"lane": f"broker {leader}", "text": "killed"}
        _await(recorder, lambda found: any(died.items() <= s.items() for s in found["spans"]))
        kafka.broker(leader).start()
        kafka.existing_topic("orders").await_leader()
        looks = len(recorder.timeline()["throughput"])
        seen = _await(recorder, lambda found: len(found["throughput"]) >= looks + 2)
        recorder.stop()
        assert not any(rate for _, rate in seen["throughput"])


def _await(recorder: Recorder, holds: Any) -> Any:
    for _ in range(600):
        found = recorder.timeline()
        if holds(found):
            return found
        recorder._ending.wait(0.05)
    raise AssertionError(recorder.timeline())
