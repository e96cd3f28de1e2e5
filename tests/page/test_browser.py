"""The page in a real browser: what a person sees, presses and clicks."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from embedkafka import EmbeddedKafka
from embedkafka.page.document import static_page
from embedkafka.page.recorder import Recorder
from tests.page.browser import CHROMIUM, Browser
from tests.page.cast import Shown, as_cast

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium: apt-get install chromium")


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    with Browser(tmp_path / "profile") as browser:
        yield browser


@pytest.fixture
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(brokers=3) as kafka:
        yield kafka


def test_a_live_page_shows_records_as_they_come_and_its_buttons_act(
    browser: Browser, kafka: EmbeddedKafka
) -> None:
    orders = kafka.topic("orders", replication=3)
    orders.send_json({"id": 1}, key="first")
    with kafka.open_ui(browser=False) as page:
        browser.open(page.url)
        browser.wait_for("document.getElementById('health').textContent === 'all is well'")
        browser.press("2")
        browser.wait_for("document.body.innerText.includes('first')")
        orders.send("<b>markup</b>", key="second")
        browser.wait_for("document.body.innerText.includes('<b>markup</b>')")
        browser.press("/")
        browser.run("document.activeElement.value = 'MARKUP'")
        browser.run("document.activeElement.dispatchEvent(new Event('input'))")
        browser.wait_for("document.body.innerText.includes('Records (1 of 2)')")
        assert browser.run("document.activeElement.id") == "search"
        browser.run("document.activeElement.blur()")
        browser.press("1")
        browser.run("document.querySelector('[aria-label=\"Kill broker 2\"]').click()")
        browser.wait_for("document.body.innerText.includes('broker 2 is killed')")
        assert kafka.broker(2).state.value == "killed"
        browser.run("document.querySelector('[aria-label=\"Start broker 2\"]').click()")
        browser.wait_for("document.getElementById('health').textContent === 'all is well'")
        buttons = "[...document.querySelectorAll('button')]"
        browser.run(f"{buttons}.find(b => b.textContent === '+8 days').click()")
        browser.wait_for("document.body.innerText.includes('8 days ahead of real time')")
    browser.wait_for("document.getElementById('live').textContent === 'not connected'")


def test_a_page_from_a_file_is_complete_in_light_and_dark_wide_and_narrow(
    browser: Browser, kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    recorder = Recorder(kafka, "kafka")
    recorder.start()
    kafka.topic("orders", partitions=2, replication=3).send_json(
        {"id": 1, "note": "</script>"}, key="k"
    )
    recorder.keep_topics("test_orders", None)
    kafka.broker(3).kill()
    kafka.existing_topic("orders").await_leader()
    recorder.stop()
    document = recorder.document()
    began, ended = document["timeline"]["started"], document["timeline"]["ended"]
    failed = {
        "id": "test_orders",
        "outcome": "failed",
        "from": began,
        "to": ended,
        "clusters": ["kafka"],
        "troubles": ["broker down: broker 3 is killed"],
        "message": "assert 'apples' == 'pears'",
        "sections": [["Traceback", "E  assert"], ["Kafka cluster", "orders-0 at 0: key 'k'"]],
    }
    passed = {**failed, "id": "test_others", "outcome": "passed"}
    run = {"title": "run", "tests": [passed, failed], "clusters": [document]}
    file = tmp_path / "report.html"
    file.write_text(static_page(run))

    backgrounds = set()
    for scheme in ("light", "dark"):
        browser.prefer(scheme)
        for width in (1300, 390):
            browser.resize(width, 800)
            browser.open(file.as_uri())
            browser.wait_for("document.querySelectorAll('svg rect').length > 3")
            seen = browser.text()
            assert seen.index("assert 'apples' == 'pears'") < seen.index("test_others")
            assert "orders-0 at 0: key 'k'" in seen, "the first failed test's cluster is open"
            assert browser.run("document.getElementById('health').textContent") == "1 failed"
            browser.press("2")
            assert "broker 3 is killed" in browser.text()
            assert browser.run("document.querySelectorAll('rect.s-controller').length") > 0
            assert browser.run("document.querySelectorAll('circle.e-state').length") > 0
            assert "NewPartition -> OnlinePartition" in browser.run("document.body.textContent")
            overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            for key in "12345":
                browser.press(key)
                assert browser.run(overflow) <= 0, f"view {key} is wider than {width}"
            browser.press("1")
            browser.run("[...document.querySelectorAll('.failure button')].at(-1).click()")
            assert '"note": "</script>"' in browser.text()
            browser.picture(tmp_path / f"{scheme}-{width}.png")
        backgrounds.add(browser.run("getComputedStyle(document.body).backgroundColor"))
    assert len(backgrounds) == 2
    browser.press("t")
    assert browser.run("document.documentElement.dataset.theme") == "light"
    many = [{**failed, "id": f"test_orders[{number}]"} for number in range(9)]
    file.write_text(static_page({**run, "tests": many}))
    browser.open("about:blank")
    browser.open(f"{file.as_uri()}#test=test_orders%5B8%5D")
    browser.wait_for("document.querySelectorAll('.failure').length == 9")
    browser.wait_for("scrollY > 0")
    top = "document.getElementById('failed-9').getBoundingClientRect().top"
    assert browser.run(f"{top} < innerHeight"), "a link to a test opens the page there"


def test_long_names_are_whole_without_a_hover_wide_and_narrow(
    browser: Browser, tmp_path: Path
) -> None:
    words = "_".join(["a_settlement_is_reconciled"] * 6)
    test, topic, group = f"test_{words}.py::test_{words}", f"topic_{words}", f"group_{words}"
    with EmbeddedKafka() as kafka:
        recorder = Recorder(kafka, f"kafka_cluster(brokers=1) of test_{words}")
        recorder.start()
        kafka.topic(topic).send("tea")
        consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": group})
        consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
        consumer.close()
        recorder.stop()
        document = recorder.document()
    timeline = document["timeline"]
    began, ended = timeline["started"], timeline["ended"]
    span = {"lane": "test", "text": test, "status": "passed", "from": began, "to": began + 1}
    timeline["spans"].append(span)
    ran = {"id": test, "from": began, "to": ended, "clusters": [document["label"]]}
    failed = {**ran, "outcome": "failed", "troubles": [], "message": words, "sections": []}
    again = {**document, "timeline": {**timeline, "started": ended + 1, "ended": ended + 2}}
    tests = [failed, {**ran, "outcome": "passed"}]
    file = tmp_path / "report.html"
    file.write_text(static_page({"title": "run", "tests": tests, "clusters": [document, again]}))
    browser.open(file.as_uri())
    browser.wait_for("document.querySelectorAll('.failure').length == 1")
    assert browser.run("document.querySelectorAll('.failure svg').length") == 1, (
        "a test shows what its cluster was while the test ran, not what it was later"
    )
    wide = "[...document.querySelectorAll('body, nav ~ *, nav ~ * *')].filter("
    wide += "each => each.scrollWidth > each.clientWidth + 1 && each.clientWidth > 0"
    wide += " && getComputedStyle(each).display != 'inline').map(each => each.outerHTML)"
    for width in (1280, 800):
        browser.resize(width, 900)
        for key, names in (
            ("1", [test]),
            ("2", [test, document["label"]]),
            ("3", [topic]),
            ("4", [group, topic]),
            ("5", [topic]),
        ):
            browser.press(key)
            browser.run("document.querySelectorAll('details').forEach(each => each.open = true)")
            seen = re.sub(r"\s", "", browser.text())
            assert all(re.sub(r"\s", "", name) in seen for name in names), (key, seen)
            assert browser.run(wide) == [], f"view {key} hides something at {width}"


def test_a_cast_shows_each_command_when_its_time_comes(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "cast.svg"
    long = "\n".join(f"\x1b[31mline {number}\x1b[0m" for number in range(60))
    file.write_text(as_cast([Shown("first", long, 5), Shown("second", "green", 5)]))
    browser.open(file.as_uri())
    browser.wait_for("document.getAnimations().length == 5")

    def visible_at(ms: int) -> list[str]:
        moved = f"each => {{ each.pause(); each.currentTime = {ms}; }}"
        browser.run(f"document.getAnimations().forEach({moved})")
        lines = "[...document.querySelectorAll('text')].filter(each => { "
        lines += "const y = each.getBoundingClientRect().top; return y >= 0 && y < innerHeight"
        lines += " && getComputedStyle(each).visibility == 'visible'; })"
        return list(browser.run(f"{lines}.map(each => each.textContent)"))

    assert visible_at(100) == ["$ first"]
    assert visible_at(3_000)[:2] == ["$ first", "line 0"]
    assert visible_at(12_000)[-3:] == ["line 59", "$ second", "green"]
