"""The result of an audit as text."""

from collections.abc import Iterable, Sequence
from typing import Final

from embedkafka.spark.delivery.result import FAULTS, AuditedRecord, Delivery, Kind

_WIDEST: Final = 60


def as_text(delivery: Delivery) -> str:
    parts = [verdict(delivery), _counts(delivery)]
    if not delivery.ok:
        parts += [_partitions(delivery), _wrong_keys(delivery), _examples(delivery)]
    return "\n\n".join(part for part in parts if part)


def verdict(delivery: Delivery) -> str:
    """One line: what was proved, or what was not."""
    between = f"from {delivery.source} to {delivery.sink}"
    if delivery.ok:
        order = ", in order" if delivery.judged else ""
        return f"delivery {between}: all {delivery.delivered:,} records arrived once{order}"
    found = ", ".join(f"{count:,} {kind}" for kind, count in delivery.faults.items() if count)
    return f"delivery {between}: REFUTED: {found}"


def order_note(delivery: Delivery) -> str:
    """What the audit says about order."""
    if delivery.judged is None:
        return "not judged"
    return f"judged for {delivery.judged:,} of {delivery.delivered:,} delivered records"


def _counts(delivery: Delivery) -> str:
    rows: list[tuple[str, str, str]] = [
        ("source", f"{delivery.source_records:,}", "records"),
        ("sink", f"{delivery.sink_records:,}", "records"),
        ("delivered", f"{delivery.delivered:,}", f"order {order_note(delivery)}"),
    ]
    rows += [(kind, f"{count:,}", FAULTS[kind]) for kind, count in delivery.faults.items()]
    if delivery.without_key:
        rows.append(("without key", f"{delivery.without_key:,}", "matched by value alone"))
    width = max(len(number) for _, number, _ in rows)
    return "\n".join(f"  {name:<11}  {number:>{width}}  {note}" for name, number, note in rows)


def _partitions(delivery: Delivery) -> str:
    kinds = [kind for kind, count in delivery.faults.items() if count]
    rows = [
        (
            each.side,
            each.topic if each.partition is None else f"{each.topic}-{each.partition}",
            f"{each.records:,}",
            *(f"{each.counts.get(kind, 0):,}" for kind in kinds),
            "" if each.first_fault is None else f"{each.first_fault} to {each.last_fault}",
        )
        for each in delivery.partitions
        if any(kind in each.counts for kind in kinds)
    ]
    header = ("side", "partition", "records", *kinds, "fault offsets")
    return "partitions with faults\n" + _aligned([header, *rows])


def _examples(delivery: Delivery) -> str:
    rows = [
        (
            example.kind,
            "(no key)" if example.key is None else _cut(example.key),
            _place(example.source),
            _place(example.sink),
        )
        for example in delivery.examples
    ]
    if not rows:
        return ""
    return "examples\n" + _aligned([("kind", "key", "source", "sink"), *rows])


def _wrong_keys(delivery: Delivery) -> str:
    """Values that examples show lost under one key, and unexpected under another."""
    arrived = {
        each.sink.value: each.key
        for each in delivery.examples
        if each.kind is Kind.UNEXPECTED and each.sink is not None
    }
    lines = [
        f"  {_cut(value)}: {each.key} in the source, {arrived[value]} in the sink"
        for each in delivery.examples
        if each.kind is Kind.LOST
        and each.source is not None
        and (value := each.source.value) in arrived
        and value is not None
        and not value.endswith("…")  # the rest may differ
    ]
    if not lines:
        return ""
    return "\n".join(["wrong keys: these values are equal, under other keys", *lines])


def _place(record: AuditedRecord | None) -> str:
    if record is None:
        return "-"
    value = "null" if record.value is None else _cut(record.value)
    return f"{record}  {value}"


def _aligned(rows: Sequence[Iterable[str]]) -> str:
    cells = [list(row) for row in rows]
    widths = [max(len(cell) for cell in column) for column in zip(*cells, strict=True)]
    return "\n".join(
        (
            "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    )


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _WIDEST else line[: _WIDEST - 1] + "…"
