"""The result of an audit as one HTML page: no script, nothing loaded from elsewhere."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from embedkafka.spark.delivery.result import (
    FAULTS,
    AuditedRecord,
    Delivery,
    Example,
    Kind,
    PartitionDelivery,
)
from embedkafka.spark.delivery.text import order_note, verdict

#: More partitions than these are not shown if nothing is wrong with them.
_MOST_PARTITIONS: Final = 200

_STYLE: Final = """
:root {
  color-scheme: light dark;
  --page: light-dark(#f6f8f9, #12171a);
  --card: light-dark(#ffffff, #1b2227);
  --line: light-dark(#dde4e7, #2e383f);
  --text: light-dark(#1d2529, #e4eaed);
  --soft: light-dark(#5c6b73, #93a3ab);
  --delivered: light-dark(#12806a, #35c4a4);
  --lost: light-dark(#c62f3b, #ff7079);
  --duplicated: light-dark(#b8690b, #f2ab4b);
  --altered: light-dark(#8a3fc2, #c48cf0);
  --unexpected: light-dark(#b02a83, #f07cc4);
  --reordered: light-dark(#2563c4, #78a9ff);
  --scattered: light-dark(#0e7f99, #55c8e0);
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--text);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 1120px; margin: 0 auto; padding: 40px 24px 64px; }
h1 { margin: 0; font-size: 26px; font-weight: 650; overflow-wrap: anywhere; }
h2 { margin: 40px 0 12px; font-size: 17px; font-weight: 600; }
p { margin: 6px 0 0; color: var(--soft); }
.verdict { border-left: 5px solid var(--tone); padding: 4px 0 4px 18px; }
.badge { display: inline-block; margin-bottom: 8px; padding: 2px 10px; border-radius: 999px;
  background: var(--tone); color: light-dark(#ffffff, #12171a); font-size: 12px; font-weight: 700;
  letter-spacing: 0.06em; text-transform: uppercase; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(148px, 1fr)); gap: 12px;
  margin-top: 28px; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  padding: 14px 16px; border-top: 3px solid var(--line); }
.card.hit { border-top-color: var(--tone); }
.card .number { font-size: 25px; font-weight: 650; font-variant-numeric: tabular-nums; }
.card.hit .number { color: var(--tone); }
.card .name { font-size: 13px; font-weight: 600; }
.card .note { font-size: 12px; line-height: 1.4; color: var(--soft); }
.sheet { background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
th { text-align: left; font-size: 12px; font-weight: 600; color: var(--soft); }
th, td { padding: 9px 12px; border-bottom: 1px solid var(--line); vertical-align: top; }
tr:last-child td { border-bottom: 0; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td.none { color: var(--soft); }
td.key { min-width: 130px; }
td.record { width: 40%; }
.place { font-size: 13px; color: var(--soft); }
.kind { color: var(--tone); font-weight: 600; white-space: nowrap; }
.bar { display: flex; gap: 1px; width: 110px; height: 8px; margin-top: 6px; border-radius: 5px;
  overflow: hidden; background: var(--line); }
.bar i { background: var(--tone); min-width: 3px; }
code { font: 13px/1.45 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace;
  overflow-wrap: anywhere; white-space: pre-wrap; }
.soft { color: var(--soft); }
footer { margin-top: 40px; font-size: 13px; color: var(--soft); }
"""


def as_page(delivery: Delivery) -> str:
    title = f"{delivery.source} → {delivery.sink}"
    parts = [
        _verdict(delivery, title),
        _cards(delivery),
        _examples(delivery.examples),
        _partitions(delivery),
        _footer(delivery),
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Delivery: {escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body>\n<main>\n{''.join(parts)}</main>\n</body>\n</html>\n"
    )


def _verdict(delivery: Delivery, title: str) -> str:
    word, kind = ("proved", Kind.DELIVERED) if delivery.ok else ("refuted", Kind.LOST)
    return (
        f'<section class="verdict" style="{_tone(kind)}"><span class="badge">{word}</span>'
        f"<h1>{escape(title)}</h1><p>{escape(_sentence(delivery))}</p></section>\n"
    )


def _sentence(delivery: Delivery) -> str:
    return verdict(delivery).partition(": ")[2].removeprefix("REFUTED: ")


def _cards(delivery: Delivery) -> str:
    cards = [
        _card("source records", delivery.source_records, delivery.source),
        _card("sink records", delivery.sink_records, delivery.sink),
        _card("delivered", delivery.delivered, f"order {order_note(delivery)}", Kind.DELIVERED),
    ]
    cards += [_card(kind, count, FAULTS[kind], kind) for kind, count in delivery.faults.items()]
    if delivery.without_key:
        cards.append(_card("without key", delivery.without_key, "matched by value alone"))
    return f'<section class="cards">{"".join(cards)}</section>\n'


def _card(name: str, number: int, note: str, kind: Kind | None = None) -> str:
    hit = kind is not None and number > 0
    tone = f' style="{_tone(kind)}"' if kind is not None and hit else ""
    return (
        f'<div class="card{" hit" if hit else ""}"{tone}><div class="number">{number:,}</div>'
        f'<div class="name">{escape(name)}</div><div class="note">{escape(note)}</div></div>'
    )


def _examples(examples: Sequence[Example]) -> str:
    if not examples:
        return ""
    rows = [
        [
            f'<td><span class="kind" style="{_tone(example.kind)}">{example.kind}</span></td>',
            f'<td class="key">{_code(example.key, "no key")}</td>',
            _record(example.source),
            _record(example.sink),
        ]
        for example in examples
    ]
    header = [f"<th>{name}</th>" for name in ("what", "key", "source", "sink")]
    return "<h2>Examples</h2>\n" + _table(header, rows)


def _record(record: AuditedRecord | None) -> str:
    if record is None:
        return '<td class="record none">-</td>'
    place = f'<div class="place">{escape(str(record))}</div>'
    return f'<td class="record">{place}{_code(record.value, "null")}</td>'


def _code(text: str | None, otherwise: str) -> str:
    if text is None:
        return f'<span class="soft">{otherwise}</span>'
    return f"<code>{escape(text)}</code>"


def _partitions(delivery: Delivery) -> str:
    shown: Sequence[PartitionDelivery] = delivery.partitions
    left_out = 0
    if len(shown) > _MOST_PARTITIONS:
        shown = [each for each in shown if each.first_fault is not None][:_MOST_PARTITIONS]
        left_out = len(delivery.partitions) - len(shown)
    kinds = [kind for kind, count in delivery.faults.items() if count]
    header = ["<th>side</th>", "<th>partition</th>", '<th class="number">offsets read</th>']
    header += [f'<th class="number">{name}</th>' for name in ("records", *kinds)]
    header += ['<th class="number">faults at offsets</th>'] if kinds else []
    note = f"<p>{left_out:,} more partitions are not shown.</p>\n" if left_out else ""
    rows = [_partition(each, kinds) for each in shown]
    return "<h2>Partitions</h2>\n" + _table(header, rows) + note


def _partition(each: PartitionDelivery, kinds: Sequence[Kind]) -> list[str]:
    name = each.topic if each.partition is None else f"{each.topic}-{each.partition}"
    read = "-" if each.start is None or each.end is None else f"{each.start:,} to {each.end:,}"
    cells = [
        f"<td>{each.side}</td>",
        f"<td>{escape(name)}{_bar(each)}</td>",
        f'<td class="number">{read}</td>',
        f'<td class="number">{each.records:,}</td>',
    ]
    cells += [_count(each.counts.get(kind, 0), kind) for kind in kinds]
    if kinds:
        at = "" if each.first_fault is None else f"{each.first_fault:,} to {each.last_fault:,}"
        cells.append(f'<td class="number">{at}</td>')
    return cells


def _count(count: int, kind: Kind) -> str:
    if not count:
        return '<td class="number none">0</td>'
    return f'<td class="number kind" style="{_tone(kind)}">{count:,}</td>'


def _bar(each: PartitionDelivery) -> str:
    pieces = "".join(
        f'<i style="flex: {count}; {_tone(kind)}" title="{count:,} {kind}"></i>'
        for kind, count in each.counts.items()
    )
    return f'<div class="bar">{pieces}</div>'


def _tone(kind: Kind) -> str:
    return f"--tone: var(--{kind})"


def _footer(delivery: Delivery) -> str:
    return (
        f"<footer>Records are identified by <code>{escape(delivery.key)}</code> and compared by "
        f"<code>{escape(delivery.value)}</code>, as hashes of 128 bits. Every record of both sides "
        "between the offsets above was read.</footer>\n"
    )


def _table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    body = "".join(f"<tr>{''.join(row)}</tr>\n" for row in rows)
    return (
        f'<div class="sheet"><table><thead><tr>{"".join(header)}</tr></thead>\n'
        f"<tbody>{body}</tbody></table></div>\n"
    )
