"""Schedules that tests draw."""

from collections.abc import Mapping
from itertools import islice

from embedkafka.explore.generation import draw_schedules
from embedkafka.explore.inputs import Input, read_inputs
from embedkafka.explore.outputs import all_records
from embedkafka.explore.places import NOTHING_PASSED, Passed
from embedkafka.explore.schedule import Schedule
from embedkafka.explore.terms import StepKind, Terms, terms_of

ORDERS = [{"sku": sku, "at": at} for sku, at in zip("abacbac", range(0, 70, 10), strict=True)]
INPUTS = {
    "orders": Input(ORDERS, key="sku", resends=True),
    "prices": Input([("a", "1"), ("b", "2")]),
}


def terms(
    inputs: Mapping[str, object] = INPUTS,
    *,
    left_out: frozenset[StepKind] = frozenset(),
    has_watermark: bool = False,
    brokers: int = 3,
    kill_jvm: bool = False,
    rebuild: bool = False,
    expire: bool = False,
    passed: Passed = NOTHING_PASSED,
) -> Terms:
    return terms_of(
        read_inputs(inputs, seed=0),
        {"out": all_records()},
        left_out,
        has_checkpoint=True,
        has_watermark=has_watermark,
        brokers=brokers,
        kill_jvm=kill_jvm,
        rebuild=rebuild,
        expire=expire,
        passed=passed,
    )


def drawn(terms: Terms, count: int = 200, seed: int = 0) -> list[Schedule]:
    return list(islice(draw_schedules(seed, terms), count - 1))


def only(*kinds: StepKind) -> frozenset[StepKind]:
    return frozenset(StepKind) - {*kinds}
