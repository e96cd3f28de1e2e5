"""Brings transaction markers to the leaders of partitions (`txn.ports.MarkerSender`)."""

from collections.abc import Callable
from typing import Final

from embedkafka.protocol.messages.transactions import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from embedkafka.runtime.ids import BrokerId, TopicPartition
from embedkafka.server.broker_channels import BrokerChannels
from embedkafka.server.metadata_cache import MetadataCache

_VERSION: Final = 2  # tells leaders the transaction version


class MarkerSender:
    """Finds leaders in the metadata, and sends to them, this broker included, over the wire."""

    def __init__(self, metadata: MetadataCache, channels: BrokerChannels) -> None:
        self._metadata = metadata
        self._channels = channels

    def find_leader(self, topic_partition: TopicPartition) -> BrokerId | None:
        info = self._metadata.snapshot.find_partition(*topic_partition)
        return None if info is None else BrokerId(info.leader)

    def send(
        self,
        broker_id: BrokerId,
        request: WriteTxnMarkersRequest,
        on_done: Callable[[WriteTxnMarkersResponse | None], None],
    ) -> None:
        self._channels.send(broker_id, request, _VERSION, on_done)
