"""Creates topics that are not there when a request needs them: internal ones, and wanted ones.

No thread waits here: what asks for a topic finds it in the metadata later.
"""

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING
from uuid import UUID

from embedkafka.broker.settings.part_configs import internal_topic_settings
from embedkafka.broker.topics.rules import DEFAULT, is_valid_topic_name
from embedkafka.runtime.topic_names import GROUP_METADATA_TOPIC, INTERNAL_TOPICS
from embedkafka.wire.protocol.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from embedkafka.broker.parts import BrokerParts

_LOG = logging.getLogger(__name__)


def auto_create_topics(broker: "BrokerParts", names: Iterable[str], client_id: str) -> None:
    """Begins to create topics that a client asked for; logs failures."""
    for name in names:
        with broker.auto_creation.creating(name, client_id) as is_allowed:
            if not is_allowed:
                continue
            if name in INTERNAL_TOPICS:
                create_internal_topic(broker, name)
            elif is_valid_topic_name(name):
                made = _create_quietly(broker, name, DEFAULT, DEFAULT, {})
                if made is not None:
                    broker.auto_creation.on_created(made, client_id)


def create_internal_topic(broker: "BrokerParts", name: str) -> None:
    partitions, replication, config = internal_topic_settings(
        broker.config.broker, group=name == GROUP_METADATA_TOPIC
    )
    _create_quietly(broker, name, partitions, replication, config)


def _create_quietly(
    broker: "BrokerParts", name: str, partitions: int, replication: int, config: dict[str, str]
) -> UUID | None:
    """Returns the new topic's id."""
    try:
        planned = broker.topics.plan_topic(
            name,
            partitions=partitions,
            replication=replication,
            config=config,
            broker_config=broker.config.broker,
        )
        broker.topics.create(planned)
    except ApiError as error:
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            _LOG.warning("broker %d cannot create topic %s: %s", broker.id, name, error)
        return None
    return planned.topic_id
