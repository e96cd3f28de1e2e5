"""An exploration says what it is doing, at most once a second."""

import logging

import pytest

from embedkafka.explore.progress import Progress


def test_a_line_is_told_at_most_once_a_second(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "embedkafka.explore")
    now_ms = 500.0
    progress = Progress(lambda: now_ms)
    for now_ms in (600.0, 1500.0, 1600.0, 2499.0, 2500.0):
        progress.tell(f"at {now_ms:.0f}")
    assert caplog.messages == ["explore: at 1500", "explore: at 2500"]
    assert progress.seconds == 2.0
