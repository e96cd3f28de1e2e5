"""Cluster features and their levels (KIP-584), beyond API versions."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from embedkafka.broker.api_table import REASON, Api, Need
from embedkafka.runtime.values import NamedTuple
from embedkafka.security.acl.operations import AclOperation, ResourceType
from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.configs import UpdateFeaturesRequest, UpdateFeaturesResponse

if TYPE_CHECKING:
    from embedkafka.broker.dispatch import RequestContext
    from embedkafka.broker.parts import BrokerParts


class Feature(NamedTuple):
    """The levels of a feature that the cluster knows, and the one in force."""

    lowest: int
    highest: int

    @property
    def level(self) -> int:
        return self.highest


FEATURES: Final[Mapping[str, Feature]] = {
    "group.version": Feature(0, 1),
    "kraft.version": Feature(0, 0),
    "metadata.version": Feature(7, 30),
    "transaction.version": Feature(0, 2),
}
"""KIP-848 groups and KIP-890 transactions, which clients use, and two that are a facade.

`metadata.version` is that of Kafka 4.3, whose requests this broker answers; it has no metadata log.
`kraft.version` says that the voters cannot change. Kafka's other features concern things that this
broker does not support.
"""

_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE = 1, 2, 3


def update_features(
    broker: "BrokerParts", request: UpdateFeaturesRequest, context: "RequestContext"
) -> UpdateFeaturesResponse:
    """Validates a feature update as Kafka does; the levels here are fixed.

    Behaviour: one bad update fails all of them (INVALID_UPDATE_VERSION).
    Left out:  downgrades are refused, even those marked as such, which Kafka allows.
    """
    for update in request.feature_updates:
        fault = _find_fault(update, controller=broker.metadata.snapshot.controller_id)
        if fault is not None:
            return UpdateFeaturesResponse(
                error_code=ErrorCode.INVALID_UPDATE_VERSION,
                error_message=f"The update failed for all features since the following feature "
                f"had an error: Invalid update version {update.max_version_level} for feature "
                f"{update.feature}. {fault}",
            )
    return UpdateFeaturesResponse(
        results=[
            UpdateFeaturesResponse.Feature(feature=update.feature, error_message="NONE")
            for update in request.feature_updates
        ]
    )


def _find_fault(update: UpdateFeaturesRequest.FeatureUpdate, *, controller: int) -> str | None:
    feature = FEATURES.get(update.feature)
    if update.upgrade_type not in (_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE):
        return "The controller does not support the given upgrade type."
    if update.max_version_level < 0:
        return "A feature version cannot be less than 0."
    if feature is None and update.max_version_level == 0:
        return f"Feature {update.feature} not found."
    if feature is None:
        return f"Local controller {controller} does not support this feature."
    if not feature.lowest <= update.max_version_level <= feature.highest:
        levels = f"{feature.lowest}-{feature.highest}"
        return f"Local controller {controller} only supports versions {levels}"
    if update.max_version_level == feature.level:
        return None
    if update.upgrade_type == _UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to "
            "either safe or unsafe downgrade."
        )
    return "Feature levels are fixed in this cluster."


APIS: Final[Mapping[ApiKey, Api]] = {
    ApiKey.UPDATE_FEATURES: Api(
        update_features, [Need(AclOperation.ALTER, ResourceType.CLUSTER, says=REASON)]
    )
}
