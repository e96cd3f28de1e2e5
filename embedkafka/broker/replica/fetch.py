"""The parameters and results of a fetch, for consumers and followers."""

import uuid
from collections.abc import Sequence
from typing import Final

from embedkafka.broker.log.log import AbortedTransaction, FetchIsolation, Records
from embedkafka.broker.log.reads import NO_RECORDS
from embedkafka.runtime.ids import (
    NO_BROKER_EPOCH,
    NO_LEADER_EPOCH,
    NO_OFFSET,
    BrokerId,
    TopicPartition,
)
from embedkafka.runtime.values import NamedTuple, dataclass
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.wire_types import ZERO_UUID

CONSUMER_REPLICA_ID: Final = BrokerId(-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientMetadata:
    """What a replica selector knows about a consumer (KIP-392)."""

    rack_id: str
    client_id: str
    client_address: str
    listener: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchParams:
    """The parameters of a fetch that apply to all its partitions.

    A consumer that sends `client_metadata` (Fetch v11 and later) may be served by followers.
    `hard_max_bytes` is for Fetch before v3, whose clients cannot handle a batch above the limit.
    Followers send their broker epoch since v15 (KIP-903).
    """

    replica_id: BrokerId = CONSUMER_REPLICA_ID
    broker_epoch: int = NO_BROKER_EPOCH
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation: FetchIsolation
    client_metadata: ClientMetadata | None = None
    hard_max_bytes: bool = False

    @property
    def is_from_follower(self) -> bool:
        return self.replica_id >= 0

    @property
    def only_leader(self) -> bool:
        return self.replica_id >= 0 or self.client_metadata is None


class PartitionFetch(NamedTuple):
    """One partition of a fetch; epochs are -1 and the id is zero where the client sent none."""

    topic_partition: TopicPartition
    fetch_offset: int
    max_bytes: int
    log_start_offset: int = NO_OFFSET
    current_leader_epoch: int = NO_LEADER_EPOCH
    last_fetched_epoch: int = NO_LEADER_EPOCH
    topic_id: uuid.UUID = ZERO_UUID


class EpochEnd(NamedTuple):
    """The last offset of an epoch, plus one; both are -1 where a log knows no such epoch."""

    epoch: int
    end_offset: int


class PartitionData(NamedTuple):
    """The answer for one partition."""

    topic_partition: TopicPartition
    error: ErrorCode = ErrorCode.NONE
    high_watermark: int = NO_OFFSET
    last_stable_offset: int = NO_OFFSET
    log_start_offset: int = NO_OFFSET
    records: Records = NO_RECORDS
    aborted_transactions: Sequence[AbortedTransaction] | None = None
    preferred_read_replica: int = -1
    diverging_epoch: EpochEnd | None = None

    @property
    def size(self) -> int:
        return len(self.records) if isinstance(self.records, memoryview) else self.records.size


def bytes_of(records: Records) -> memoryview:
    """The records, read from the file if necessary."""
    return records if isinstance(records, memoryview) else memoryview(records.read())
