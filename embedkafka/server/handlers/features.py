"""Cluster features and their levels (KIP-584), beyond API versions."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from embedkafka.protocol.errors import ErrorCode
from embedkafka.protocol.messages.configs import UpdateFeaturesRequest, UpdateFeaturesResponse

if TYPE_CHECKING:
    from embedkafka.server.broker import Broker
    from embedkafka.server.dispatch import RequestContext

FEATURES: Final[Mapping[str, int]] = {"group.version": 1, "transaction.version": 2}
"""The features that clients use: KIP-848 groups and KIP-890 transactions.

Kafka's other features concern its metadata log, or things that this broker does not support.
"""

_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE = 1, 2, 3


def update_features(
    broker: "Broker", request: UpdateFeaturesRequest, context: "RequestContext"
) -> UpdateFeaturesResponse:
    """Validates a feature update as Kafka does; the levels here are fixed.

    Behaviour: one bad update fails all of them (INVALID_UPDATE_VERSION).
    Left out:  downgrades are refused, even those marked as such, which Kafka allows.
    """
    for update in request.feature_updates:
        fault = _find_fault(update)
        if fault is not None:
            return UpdateFeaturesResponse(
                error_code=ErrorCode.INVALID_UPDATE_VERSION,
                error_message=f"The update failed for all features since the following feature "
                f"had an error: Invalid update version {update.max_version_level} for feature "
                f"{update.feature}. {fault}",
            )
    return UpdateFeaturesResponse(
        results=[
            UpdateFeaturesResponse.Feature(feature=update.feature)
            for update in request.feature_updates
        ]
    )


def _find_fault(update: UpdateFeaturesRequest.FeatureUpdate) -> str | None:
    highest = FEATURES.get(update.feature)
    if update.upgrade_type not in (_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE):
        return "The controller does not support the given upgrade type."
    if update.max_version_level < 0:
        return "A feature version cannot be less than 0."
    if highest is None:
        return "This cluster does not support this feature."
    if update.max_version_level > highest:
        return f"This cluster only supports versions 0-{highest}"
    if update.max_version_level == highest:
        return None
    if update.upgrade_type == _UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to "
            "either safe or unsafe downgrade."
        )
    return "Feature levels are fixed in this cluster."
