"""The factor of timeouts, from the environment."""

import pytest

from embedkafka.runtime.failures import ConfigError
from embedkafka.runtime.patience import VARIABLE, patient


def test_timeouts_are_multiplied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert patient(30) == 30
    monkeypatch.setenv(VARIABLE, "2.5")
    assert patient(30) == 75


@pytest.mark.parametrize("given", ["0", "-1", "nan", "inf", "slow"])
def test_what_is_not_a_factor_is_refused(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.setenv(VARIABLE, given)
    with pytest.raises(ConfigError, match=f"{VARIABLE} must be a number above 0, .*got '{given}'"):
        patient(30)
