"""Lengths of time in reports."""

import pytest

from embedkafka.cluster.reports.request_lines import span


@pytest.mark.parametrize(
    ("length_s", "text"),
    [
        (0.4, "0.4 s"),
        (59.9, "59.9 s"),
        (60, "1 min 0 s"),
        (725.9, "12 min 5 s"),
        (3600.9, "1 h 0 min"),
        (12_000, "3 h 20 min"),
        (259_200.4, "3 d 0 h"),
    ],
)
def test_a_length_of_time_has_two_units_at_most(length_s: float, text: str) -> None:
    assert span(length_s * 1000) == text
