"""The comparison of two tours is strict in both directions."""

import pytest

from tests.wire.tools.tours import Known, Visit, check, differences

EVERYTHING = Known(call=".*", field=".*", reason="any")


def visit(port: int, **told: object) -> Visit:
    return Visit(told=told, prefix="my-", bootstrap_servers=f"127.0.0.1:{port}")


def test_names_ports_ids_and_times_of_a_cluster_do_not_count() -> None:
    here = visit(1234, call={"port": 1234, "id": "-fNYPWOgTEKkRjumTdwoDQ", "at": 1794898065058})
    there = visit(5678, call={"port": 5678, "id": "uKEAwzBQSMKHIE7PZcqDVw", "at": 1794898065059})
    assert differences(here, there) == []


def test_the_order_of_groups_does_not_count_but_each_of_them_does() -> None:
    first, second = {"groupId": "a", "type": "Classic"}, {"groupId": "b", "type": "Consumer"}
    here = visit(1, call={"all": [first, second]})
    assert differences(here, visit(2, call={"all": [second, first]})) == []
    assert differences(here, visit(2, call={"all": [second]}))


def test_a_difference_that_no_row_explains_fails() -> None:
    found = differences(visit(1, call={"code": 3}), visit(2, call={"code": 4, "more": None}))
    assert [(one.field, one.kafka, one.ours) for one in found] == [
        ("code", "3", "4"),
        ("more", "(not told)", None),
    ]
    with pytest.raises(AssertionError, match="call / code"):
        check(found, [])
    check(found, [EVERYTHING])


def test_a_row_that_explains_nothing_fails() -> None:
    same = differences(visit(1, call={"code": 3}), visit(2, call={"code": 3}))
    with pytest.raises(AssertionError, match="these differences are gone"):
        check(same, [EVERYTHING])
