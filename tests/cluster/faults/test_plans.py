"""Random plans of faults: repeated by their seed, and survived by the cluster."""

import pytest

from embedkafka import EmbeddedKafka
from embedkafka.cluster.fault_steps import fault_choices
from tests.cluster.traffic import make_producer, send


def test_a_seed_repeats_a_plan(kafka: EmbeddedKafka, capsys: pytest.CaptureFixture[str]) -> None:
    plan = kafka.faults.plan(seed=7, steps=20)
    printed = capsys.readouterr().out
    assert printed == f"{plan}\n"
    assert printed.startswith("plan(seed=7, steps=20, allow=[")
    assert str(kafka.faults.plan(seed=7, steps=20)) == str(plan)
    assert str(kafka.faults.plan(seed=8, steps=20)) != str(plan)
    assert [step.number for step in plan] == list(range(1, len(plan) + 1))


def test_only_what_is_allowed_happens(kafka: EmbeddedKafka) -> None:
    plan = kafka.faults.plan(seed=1, steps=30, allow=["kill", "pause"])
    assert {str(step).split()[1] for step in plan} == {"kill", "pause"}


def test_the_seed_of_a_cluster_repeats_its_plans() -> None:
    with EmbeddedKafka(seed=5) as one, EmbeddedKafka(seed=5) as other:
        assert str(one.faults.plan()) == str(other.faults.plan())


def test_a_cluster_survives_every_kind_of_step(kafka: EmbeddedKafka) -> None:
    kafka.topic("orders", replication=3, config={"min.insync.replicas": 1})
    producer = make_producer(kafka)
    sent = 0
    for kind in sorted(fault_choices(kafka._require_brokers())):
        for step in kafka.faults.plan(seed=3, steps=1, allow=[kind]):
            with step:
                if kind not in ("stall_link", "pause", "cut_link"):  # clients may have to wait
                    error, _ = send(producer, "orders", kind)
                    assert error is None, step
                    sent += 1
        assert kafka.faults.active == [], kind
        kafka.await_no_under_replicated()
    assert len(kafka.existing_topic("orders").read()) == sent


def test_a_step_is_undone_when_the_test_fails(kafka: EmbeddedKafka) -> None:
    (step,) = kafka.faults.plan(seed=1, steps=1, allow=["kill"])
    with pytest.raises(ZeroDivisionError), step:
        raise ZeroDivisionError
    assert all(handle.is_reachable for handle in kafka.brokers)


def test_a_plan_runs_what_the_test_does(kafka: EmbeddedKafka) -> None:
    seen: list[list[str]] = []
    plan = kafka.faults.plan(seed=2, steps=3, allow=["slow_link"])
    plan.run(lambda: seen.append(kafka.faults.active))
    assert [len(active) for active in seen] == [1, 1, 1]
