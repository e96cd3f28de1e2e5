"""The result of an audit as a table and as a page."""

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from embedkafka.runtime.values import replace
from embedkafka.spark.delivery.result import (
    FAULTS,
    AuditedRecord,
    Example,
    Kind,
)
from tests.presence import present
from tests.unit.spark.delivery.deliveries import (
    BAD,
    GOOD,
)


def test_the_verdict_is_the_first_line() -> None:
    assert GOOD.ok
    assert GOOD.table().splitlines()[0] == (
        "delivery from orders to priced: all 1,200 records arrived once, in order"
    )
    assert not BAD.ok
    assert BAD.table().splitlines()[0] == (
        "delivery from orders to priced: REFUTED: 2 lost, 1 altered"
    )


def test_order_is_claimed_only_if_it_was_judged() -> None:
    for judged in (None, 0):
        assert "in order" not in replace(GOOD, judged=judged).table()
    assert "order not judged" in replace(GOOD, judged=None).table()


def test_the_table_has_faults_partitions_and_examples() -> None:
    table = BAD.table()
    assert repr(BAD) == table
    assert re.search(r"lost +2  in the source, not in the sink", table)
    assert re.search(r"without key +4  matched by value alone", table)
    assert re.search(r"sink +priced-2 +1,198 +0 +1 +77 to 77", table)
    assert "orders-0 " in table.partition("examples")[2]
    assert "source  orders-0" not in table.partition("examples")[0], "nothing is wrong there"
    assert re.search(r'altered +<b>7</b> +orders-0 @ 3  {"a": "<&>"} +priced-2 @ 77  null', table)
    assert re.search(r"lost +\(no key\) +orders  x{59}… +-$", table)


def test_equal_values_under_other_keys_are_named() -> None:
    def half(kind: Kind, key: str, value: str | None) -> Example:
        record = AuditedRecord(topic="orders", partition=0, offset=1, value=value)
        side = "source" if kind is Kind.LOST else "sink"
        return Example(kind=kind, key=key, **{side: record})

    examples = [half(Kind.LOST, "7", value) for value in ("tea", "cup", "cut…", None)]
    examples += [half(Kind.UNEXPECTED, "8", value) for value in ("tea", "cut…", None)]
    said = replace(BAD, unexpected=3, examples=tuple(examples)).table()
    title = "wrong keys: these values are equal, under other keys"
    assert f"\n\n{title}\n  tea: 7 in the source, 8 in the sink\n\nexamples" in said
    assert "wrong keys" not in BAD.table()


def test_every_fault_is_a_count_of_the_result() -> None:
    assert set(FAULTS) == set(Kind) - {Kind.DELIVERED}
    for kind in FAULTS:
        change: dict[str, Any] = {kind.value: 1}
        assert not replace(GOOD, **change).ok


class Page(HTMLParser):
    """Checks that tags are closed in order, and collects text and addresses."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.addresses: list[str] = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.addresses += [present(value) for name, value in attributes if name in ("src", "href")]
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.texts.append(data)


def test_the_page_needs_nothing_and_escapes_what_records_hold() -> None:
    page = Page(BAD.to_html())
    assert page.addresses == []
    assert "url(" not in BAD.to_html()
    assert "refuted" in page.texts
    assert "<b>7</b>" in page.texts
    assert '{"a": "<&>"}' in page.texts
    assert "priced-2 @ 77" in page.texts
    assert "proved" in Page(GOOD.to_html()).texts


def test_the_page_is_written_to_a_file(tmp_path: Path) -> None:
    page = GOOD.to_html(tmp_path / "audit.html")
    assert (tmp_path / "audit.html").read_text(encoding="utf-8") == page


def test_a_page_of_many_partitions_shows_those_with_faults() -> None:
    good, bad = BAD.partitions
    many = [replace(good, partition=number) for number in range(300)]
    page = Page(replace(BAD, partitions=(*many, bad)).to_html())
    assert "priced-2" in page.texts
    assert "orders-17" not in page.texts
    assert "300 more partitions are not shown." in page.texts
