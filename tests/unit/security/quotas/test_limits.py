"""Which quota applies: Kafka's order of precedence."""

import pytest

from embedkafka.security.quotas.limits import QuotaLimits, QuotaType

RATE = QuotaType.PRODUCE.value
ENTITIES: list[tuple[dict[str, str | None], float]] = [
    ({"user": "a", "client-id": "x"}, 1.0),
    ({"user": "a", "client-id": None}, 2.0),
    ({"user": "a"}, 3.0),
    ({"user": None, "client-id": "x"}, 4.0),
    ({"user": None, "client-id": None}, 5.0),
    ({"user": None}, 6.0),
    ({"client-id": "x"}, 7.0),
    ({"client-id": None}, 8.0),
]


@pytest.mark.parametrize("strongest", range(len(ENTITIES)))
def test_the_strongest_quota_that_is_left_applies(strongest: int) -> None:
    left = [(entity, {RATE: limit}) for entity, limit in ENTITIES[strongest:]]
    found = QuotaLimits.of(QuotaType.PRODUCE, left).find("a", "x")
    assert found is not None
    entity, limit = ENTITIES[strongest]
    shared_by = ("a" if "user" in entity else "", "x" if "client-id" in entity else "")
    assert found == (limit, shared_by)


def test_a_quota_of_others_does_not_apply() -> None:
    limits = QuotaLimits.of(QuotaType.PRODUCE, [({"user": "b"}, {RATE: 1.0})])
    assert limits
    assert limits.find("a", "x") is None


def test_each_user_has_its_own_default() -> None:
    limits = QuotaLimits.of(QuotaType.PRODUCE, [({"user": None}, {RATE: 1.0})])
    assert limits.find("a", "x") == (1.0, ("a", ""))
    assert limits.find("b", "x") == (1.0, ("b", ""))


def test_quotas_of_other_types_are_left_out() -> None:
    assert not QuotaLimits.of(QuotaType.FETCH, [({"user": "a"}, {RATE: 1.0})])
