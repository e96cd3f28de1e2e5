"""UpdateFeatures: refuses unsuitable levels as Kafka does."""

from typing import Any

import pytest

from embedkafka.protocol.errors import ErrorCode
from embedkafka.protocol.messages.configs import UpdateFeaturesRequest
from embedkafka.protocol.messages.core import ApiVersionsRequest
from tests.wire.one_partition import each_version
from tests.wire.raw_client import RawClient

UPGRADE, SAFE_DOWNGRADE = 1, 2


def update(
    raw: RawClient,
    levels: dict[str, int],
    version: int = 2,
    *,
    kind: int = UPGRADE,
    trial: bool = False,
) -> Any:
    wanted = [
        UpdateFeaturesRequest.FeatureUpdate(
            feature=name, max_version_level=level, upgrade_type=kind
        )
        for name, level in levels.items()
    ]
    return raw.call(
        UpdateFeaturesRequest(feature_updates=wanted, validate_only=trial and version > 0), version
    )


def levels(raw: RawClient) -> dict[str, int]:
    answer = raw.call(
        ApiVersionsRequest(client_software_name="raw", client_software_version="1"), 4
    )
    return {feature.name: feature.max_version_level for feature in answer.finalized_features}


def test_one_unknown_feature_fails_the_whole_update(raw: RawClient) -> None:
    def check(version: int) -> None:
        answer = update(raw, {"group.version": 1, "no.such.feature": 1}, version)
        assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
        assert "no.such.feature" in answer.error_message
        assert not answer.results

    each_version(raw, UpdateFeaturesRequest, check)


def test_the_level_that_a_feature_has_is_fine(raw: RawClient) -> None:
    def check(version: int) -> None:
        answer = update(raw, {"group.version": 1, "transaction.version": 2}, version)
        assert answer.error_code == ErrorCode.NONE
        named = [result.feature for result in answer.results]
        assert named == ([] if version == 2 else ["group.version", "transaction.version"])
        assert not any(result.error_code for result in answer.results)

    each_version(raw, UpdateFeaturesRequest, check)
    assert levels(raw)["transaction.version"] == 2


@pytest.mark.parametrize(
    ("level", "kind"),
    [
        pytest.param(9, UPGRADE, id="too-high"),
        pytest.param(-1, UPGRADE, id="negative"),
        pytest.param(1, UPGRADE, id="downgrade-called-upgrade"),
        pytest.param(1, 0, id="unknown-kind"),
        pytest.param(9, SAFE_DOWNGRADE, id="too-high-for-a-downgrade"),
    ],
)
@pytest.mark.parametrize("trial", [False, True], ids=["for-real", "trial"])
def test_a_level_that_does_not_fit_is_refused(
    raw: RawClient, level: int, kind: int, trial: bool
) -> None:
    answer = update(raw, {"transaction.version": level}, kind=kind, trial=trial)
    assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert f"Invalid update version {level} for feature transaction.version" in answer.error_message
    assert levels(raw)["transaction.version"] == 2
