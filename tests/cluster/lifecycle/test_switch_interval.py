"""A running cluster shortens the interpreter's switch interval and restores it at the end."""

import sys
from collections.abc import Iterator

import pytest

from embedkafka import EmbeddedKafka
from embedkafka.runtime import switch_interval
from embedkafka.runtime.switch_interval import INTERVAL_S


@pytest.fixture(autouse=True)
def interval(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Sets another one, as if no cluster of another test were running."""
    monkeypatch.setattr(switch_interval, "_clusters", 0)
    monkeypatch.setattr(switch_interval, "_before", 0.0)
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.004)
    yield
    sys.setswitchinterval(before)


def test_the_last_cluster_puts_the_interval_back() -> None:
    with EmbeddedKafka() as outer:
        assert sys.getswitchinterval() == pytest.approx(INTERVAL_S)
        with EmbeddedKafka():
            pass
        assert sys.getswitchinterval() == pytest.approx(INTERVAL_S)
        outer.close()
        assert sys.getswitchinterval() == pytest.approx(0.004)
    assert sys.getswitchinterval() == pytest.approx(0.004)


def test_what_the_program_chose_is_respected() -> None:
    sys.setswitchinterval(0.0005)
    with EmbeddedKafka():
        assert sys.getswitchinterval() == pytest.approx(0.0005)
    with EmbeddedKafka():
        sys.setswitchinterval(0.003)
    assert sys.getswitchinterval() == pytest.approx(0.003)
