"""Sends transaction markers to partition leaders (`transactions.ports.MarkerTransport`)."""

import logging
from collections.abc import Callable
from typing import Final

from embedkafka.broker.broker_channels import BrokerChannels
from embedkafka.broker.metadata_cache import MetadataCache
from embedkafka.runtime.ids import NO_LEADER, BrokerId, TopicPartition
from embedkafka.wire.protocol.messages.transactions import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from embedkafka.zk.kafka_zk import KafkaZk
from embedkafka.zk.store import ZkError

_LOG = logging.getLogger(__name__)

_VERSION: Final = 2  # tells leaders the transaction version


class MarkerChannels:
    """Finds leaders in the metadata and sends to them over the wire, to this broker too.

    A partition missing from the metadata need not be deleted: the controller makes this broker a
    coordinator before it sends all partitions. Only the store knows, so this asks the store.
    """

    def __init__(self, metadata: MetadataCache, channels: BrokerChannels, zk: KafkaZk) -> None:
        self._metadata = metadata
        self._channels = channels
        self._zk = zk

    def find_leader(self, topic_partition: TopicPartition) -> BrokerId | None:
        info = self._metadata.snapshot.find_partition(*topic_partition)
        if info is not None:
            return BrokerId(info.leader)
        return None if self._is_deleted(topic_partition) else NO_LEADER

    def _is_deleted(self, topic_partition: TopicPartition) -> bool:
        """Whether the partition was deleted; False while the store is unreachable."""
        topic, partition = topic_partition
        try:
            found = self._zk.find_topic(topic)
            if found is None or partition not in found.partitions:
                return True
            return self._zk.is_marked_for_deletion(topic)
        except ZkError as error:
            _LOG.debug("cannot tell yet whether %s was deleted: %r", topic_partition, error)
            return False

    def send(
        self,
        broker_id: BrokerId,
        request: WriteTxnMarkersRequest,
        on_done: Callable[[WriteTxnMarkersResponse | None], None],
    ) -> None:
        self._channels.send(broker_id, request, _VERSION, on_done)
