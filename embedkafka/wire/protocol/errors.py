"""Kafka's error codes, and the exceptions that carry them.

`ApiError` is an answer to a client: a handler raises it and `dispatch` turns it into a code.
`ProtocolError` means that the bytes make no sense: no answer is possible, and Kafka closes the
connection.
"""

from enum import IntEnum
from typing import Final, Self


class ErrorCode(IntEnum):
    """A code on the wire, whether clients retry on it, and a short meaning."""

    retriable: bool
    message: str

    def __new__(cls, code: int, message: str = "", retriable: bool = False) -> Self:
        member = int.__new__(cls, code)
        member._value_ = code
        member.message = message
        member.retriable = retriable
        return member

    UNKNOWN_SERVER_ERROR = -1, "the broker failed unexpectedly"
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1, "the log has no such offset"
    CORRUPT_MESSAGE = 2, "a batch is damaged, too large, or lacks a key it needs", True
    UNKNOWN_TOPIC_OR_PARTITION = 3, "This server does not host this topic-partition.", True
    INVALID_FETCH_SIZE = 4, "the fetch size is not valid"
    LEADER_NOT_AVAILABLE = 5, "the partition has no leader at the moment", True
    NOT_LEADER_OR_FOLLOWER = 6, "this broker does not lead or follow the partition", True
    REQUEST_TIMED_OUT = 7, "the request did not complete in time", True
    BROKER_NOT_AVAILABLE = 8, "the broker is not available"
    REPLICA_NOT_AVAILABLE = 9, "this broker has no such replica", True
    MESSAGE_TOO_LARGE = 10, "a batch is larger than the topic allows"
    STALE_CONTROLLER_EPOCH = 11, "there is a newer controller"
    OFFSET_METADATA_TOO_LARGE = 12, "the metadata of a committed offset is too long"
    NETWORK_EXCEPTION = 13, "the connection ended before the answer arrived", True
    COORDINATOR_LOAD_IN_PROGRESS = 14, "the coordinator is still loading", True
    COORDINATOR_NOT_AVAILABLE = 15, "there is no coordinator at the moment", True
    NOT_COORDINATOR = 16, "another broker coordinates this", True
    INVALID_TOPIC_EXCEPTION = 17, "the topic name is not valid, or the topic is not for this use"
    RECORD_LIST_TOO_LARGE = 18, "the batches do not fit in one segment"
    NOT_ENOUGH_REPLICAS = 19, "fewer replicas are in sync than required; nothing written", True
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20, "written, but fewer replicas are in sync now", True
    INVALID_REQUIRED_ACKS = 21, "acks must be -1, 0 or 1"
    ILLEGAL_GENERATION = 22, "the group has another generation"
    INCONSISTENT_GROUP_PROTOCOL = 23, "the member and the group have no protocol in common"
    INVALID_GROUP_ID = 24, "the group id is not valid"
    UNKNOWN_MEMBER_ID = 25, "the group has no such member"
    INVALID_SESSION_TIMEOUT = 26, "the session timeout is outside the broker's bounds"
    REBALANCE_IN_PROGRESS = 27, "the group is rebalancing; join again"
    INVALID_COMMIT_OFFSET_SIZE = 28, "the offsets to commit do not fit in a batch"
    TOPIC_AUTHORIZATION_FAILED = 29, "Topic authorization failed."
    GROUP_AUTHORIZATION_FAILED = 30, "Group authorization failed."
    CLUSTER_AUTHORIZATION_FAILED = 31, "Cluster authorization failed."
    INVALID_TIMESTAMP = 32, "a timestamp is too far from the broker's time"
    UNSUPPORTED_SASL_MECHANISM = 33, "the broker has no such SASL mechanism"
    ILLEGAL_SASL_STATE = 34, "the request does not fit the state of authentication"
    UNSUPPORTED_VERSION = 35, "the broker does not speak this version"
    TOPIC_ALREADY_EXISTS = 36, "a topic of this name already exists"
    INVALID_PARTITIONS = 37, "the number of partitions is not valid"
    INVALID_REPLICATION_FACTOR = 38, "the replication factor is below 1 or above the broker count"
    INVALID_REPLICA_ASSIGNMENT = 39, "the replica assignment is not valid"
    INVALID_CONFIG = 40, "a config value is not valid"
    NOT_CONTROLLER = 41, "another broker is the controller", True
    INVALID_REQUEST = (
        42,
        "This most likely occurs because of a request being malformed by the client library or the "
        "message was sent to an incompatible broker. See the broker logs for more details.",
    )
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, "the log's message format cannot do this"
    POLICY_VIOLATION = 44, "a policy of the cluster forbids this"
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, "sequence numbers of this producer are missing"
    DUPLICATE_SEQUENCE_NUMBER = 46, "the batch has already been written"
    INVALID_PRODUCER_EPOCH = 47, "a newer epoch of this producer is known"
    INVALID_TXN_STATE = 48, "the transaction's state does not allow this"
    INVALID_PRODUCER_ID_MAPPING = 49, "the transactional id has another producer id"
    INVALID_TRANSACTION_TIMEOUT = 50, "the transaction timeout is above the broker's bound"
    CONCURRENT_TRANSACTIONS = 51, "the previous step of the transaction is not finished", True
    TRANSACTION_COORDINATOR_FENCED = 52, "a newer coordinator serves this producer"
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, "Transactional Id authorization failed."
    SECURITY_DISABLED = 54, "there is no authorizer"
    OPERATION_NOT_ATTEMPTED = 55, "not tried, as another part of the request failed"
    KAFKA_STORAGE_ERROR = 56, "the log directory failed", True
    LOG_DIR_NOT_FOUND = 57, "the broker has no such log directory"
    SASL_AUTHENTICATION_FAILED = 58, "the credentials were refused"
    UNKNOWN_PRODUCER_ID = 59, "this producer is no longer known"
    REASSIGNMENT_IN_PROGRESS = 60, "the partition is being reassigned"
    DELEGATION_TOKEN_AUTH_DISABLED = 61, "delegation tokens are not enabled"
    DELEGATION_TOKEN_NOT_FOUND = 62, "there is no such delegation token"
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, "only its owner or a renewer may do this with the token"
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64, "this connection may not ask for tokens"
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, "Delegation Token authorization failed."
    DELEGATION_TOKEN_EXPIRED = 66, "the delegation token has expired"
    INVALID_PRINCIPAL_TYPE = 67, "there is no such kind of principal"
    NON_EMPTY_GROUP = 68, "the group has members"
    GROUP_ID_NOT_FOUND = 69, "there is no such group"
    FETCH_SESSION_ID_NOT_FOUND = 70, "there is no such fetch session", True
    INVALID_FETCH_SESSION_EPOCH = 71, "the fetch session expects another epoch", True
    LISTENER_NOT_FOUND = 72, "the leader does not have the listener of this connection", True
    TOPIC_DELETION_DISABLED = 73, "topics may not be deleted here"
    FENCED_LEADER_EPOCH = 74, "the leader epoch is older than the broker's", True
    UNKNOWN_LEADER_EPOCH = 75, "the leader epoch is newer than the broker's", True
    UNSUPPORTED_COMPRESSION_TYPE = 76, "the client's version cannot read this compression"
    STALE_BROKER_EPOCH = 77, "the broker has registered again"
    OFFSET_NOT_AVAILABLE = 78, "the new leader does not know its high watermark yet", True
    MEMBER_ID_REQUIRED = 79, "join again with the member id in this answer"
    PREFERRED_LEADER_NOT_AVAILABLE = 80, "the preferred leader cannot lead now", True
    GROUP_MAX_SIZE_REACHED = 81, "the group is full"
    FENCED_INSTANCE_ID = 82, "another member has taken over this group.instance.id"
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, "no replica may become leader now", True
    ELECTION_NOT_NEEDED = 84, "Leader election not needed for topic partition.", True
    NO_REASSIGNMENT_IN_PROGRESS = 85, "the partition is not being reassigned"
    GROUP_SUBSCRIBED_TO_TOPIC = 86, "the group reads this topic, its offsets must stay"
    INVALID_RECORD = 87, "a record breaks a rule of the topic"
    UNSTABLE_OFFSET_COMMIT = 88, "a transaction with offsets of this group is open", True
    THROTTLING_QUOTA_EXCEEDED = 89, "too many changes in a short time", True
    PRODUCER_FENCED = 90, "a newer producer has this transactional id"
    RESOURCE_NOT_FOUND = 91, "there is no such resource"
    DUPLICATE_RESOURCE = 92, "the request names a resource twice"
    UNACCEPTABLE_CREDENTIAL = 93, "the credential is too weak or empty"
    INCONSISTENT_VOTER_SET = 94, "sender and receiver do not agree on the voters"
    INVALID_UPDATE_VERSION = 95, "the version of the update is not valid"
    FEATURE_UPDATE_FAILED = 96, "the features could not be updated"
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, "the principal of a forwarded request is unreadable"
    SNAPSHOT_NOT_FOUND = 98, "there is no such snapshot"
    POSITION_OUT_OF_RANGE = 99, "the snapshot has no such position"
    UNKNOWN_TOPIC_ID = 100, "This server does not host this topic ID.", True
    DUPLICATE_BROKER_REGISTRATION = 101, "another broker has this id"
    BROKER_ID_NOT_REGISTERED = 102, "no broker has this id"
    INCONSISTENT_TOPIC_ID = 103, "the log belongs to another topic id", True
    INCONSISTENT_CLUSTER_ID = 104, "this is another cluster"
    TRANSACTIONAL_ID_NOT_FOUND = 105, "there is no such transactional id"
    FETCH_SESSION_TOPIC_ID_ERROR = 106, "a fetch session cannot mix names and topic ids", True
    INELIGIBLE_REPLICA = 107, "a replica in the new ISR may not join it"
    NEW_LEADER_ELECTED = 108, "the partition was changed and has a new leader"
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, "the offset is in tiered storage"
    FENCED_MEMBER_EPOCH = 110, "the member epoch is fenced; give up all partitions and join again"
    UNRELEASED_INSTANCE_ID = 111, "another member still has this instance id"
    UNSUPPORTED_ASSIGNOR = 112, "the group has no such assignor"
    STALE_MEMBER_EPOCH = 113, "the member epoch is old; heartbeat first"
    MISMATCHED_ENDPOINT_TYPE = 114, "this endpoint is of the wrong kind"
    UNSUPPORTED_ENDPOINT_TYPE = 115, "there is no such kind of endpoint"
    UNKNOWN_CONTROLLER_ID = 116, "there is no such controller"
    UNKNOWN_SUBSCRIPTION_ID = 117, "the telemetry subscription is unknown or outdated"
    TELEMETRY_TOO_LARGE = 118, "the telemetry is too large"
    INVALID_REGISTRATION = 119, "the registration of the broker is not valid"
    TRANSACTION_ABORTABLE = 120, "abort the transaction, then continue"
    INVALID_RECORD_STATE = 121, "the record's state does not allow this acknowledgement"
    SHARE_SESSION_NOT_FOUND = 122, "there is no such share session", True
    INVALID_SHARE_SESSION_EPOCH = 123, "the share session expects another epoch", True
    FENCED_STATE_EPOCH = 124, "the share-group state has another epoch"
    INVALID_VOTER_KEY = 125, "the voter key is that of another replica"
    DUPLICATE_VOTER = 126, "the replica is already a voter"
    VOTER_NOT_FOUND = 127, "the replica is not a voter"
    INVALID_REGULAR_EXPRESSION = 128, "the regular expression is not valid"
    REBOOTSTRAP_REQUIRED = 129, "start again from the bootstrap servers"
    STREAMS_INVALID_TOPOLOGY = 130, "the topology is not valid"
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, "the topology epoch is not valid"
    STREAMS_TOPOLOGY_FENCED = 132, "the topology epoch is outdated"
    SHARE_SESSION_LIMIT_REACHED = 133, "the broker has no room for more share sessions", True


_MAX_MESSAGE: Final = 4096


class ApiError(Exception):
    """A failure with an error code in the protocol."""

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        if len(message) > _MAX_MESSAGE:  # it may quote a client's long name, but must fit a string
            message = message[:_MAX_MESSAGE] + "..."
        super().__init__(code, message)
        self.code = code
        self.message = message or code.message

    def __str__(self) -> str:
        return f"{self.code.name}: {self.message}"


class ProtocolError(Exception):
    """Bytes that are no valid message, or a message that no bytes can hold."""
