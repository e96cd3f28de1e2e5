"""Three Kafka brokers, a Structured Streaming job and its result, all from one command.

Run `make demo`, or `python examples/orders/demo.py` where embedkafka is installed.
"""

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from orders.job import Topics, run

from embedkafka import EmbeddedKafka, EmbedKafkaError, Message, Topic
from embedkafka.spark.session import local_session

PRICES = {"apple": 0.30, "bread": 2.40, "cheese": 4.95}
BASKETS = [("apple", 6), ("bread", 1), ("apple", 4), ("cheese", 2), ("bread", 2), ("apple", 10)]


def main() -> int:
    started = time.monotonic()
    try:
        with EmbeddedKafka(brokers=3) as kafka:
            tell(f"three brokers are up after {time.monotonic() - started:.3f} s")
            tell(f"they listen on {kafka.bootstrap_servers}")
            orders, prices = kafka.topic("orders", partitions=3), kafka.topic("prices")
            enriched, revenue = kafka.topic("enriched", partitions=3), kafka.topic("revenue")
            fill(orders, prices)
            with local_session("orders-demo", progress=tell) as spark:
                tell("running the job: orders + prices -> enriched -> revenue")
                with tempfile.TemporaryDirectory() as checkpoints:
                    run(spark, kafka.bootstrap_servers, Path(checkpoints), Topics())
            show(enriched.read(len(BASKETS)), ["order_id", "sku", "quantity", "price", "total"])
            show(revenue.read(len(PRICES)), ["sku", "orders", "pieces", "revenue"])
    except EmbedKafkaError as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    print()
    tell(f"all of it took {time.monotonic() - started:.0f} s; nothing is left running")
    print("\nRead on:")
    print("  examples/orders/orders/job.py        the job, plain Structured Streaming")
    print("  examples/orders/tests/test_job.py    its tests, with the fixtures kafka and spark")
    print("  README.md                            everything else")
    return 0


def fill(orders: Topic, prices: Topic) -> None:
    """What a shop's other systems would have written."""
    for sku, price in PRICES.items():
        record = {"sku": sku, "price": price, "valid_from": "2026-03-01T00:00:00Z"}
        prices.send_json(record, key=sku)
    for number, (sku, quantity) in enumerate(BASKETS, start=1):
        at = f"2026-03-01T09:{number:02}:00Z"
        order = {"order_id": number, "sku": sku, "quantity": quantity, "at": at}
        orders.send_json(order, key=str(number))
    tell(f"wrote {len(BASKETS)} orders and {len(PRICES)} prices")


def show(messages: Sequence[Message], columns: Sequence[str]) -> None:
    """A topic's records as a table, in the order of its first column."""
    rows = sorted([message.json()[column] for column in columns] for message in messages)
    cells = [[f"{v:.2f}" if isinstance(v, float) else str(v) for v in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    print(f"\ntopic {messages[0].topic}")
    for row in [list(columns), ["-" * width for width in widths], *cells]:
        print("  " + "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))


def tell(line: str) -> None:
    print(f"[{time.strftime('%H:%M:%S')}] {line}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
