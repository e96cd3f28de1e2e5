"""Runs Kafka's background work on demand: leaders, controller, segments, compaction, expiry.

Each call uses Kafka's own way: requests to the controller, a new `/controller` znode, the
cleaner, the coordinator's check for expired offsets. It returns when the effect is there.

Owner: none; it asks the brokers and waits for them.
"""

from typing import TYPE_CHECKING, Final

from embedkafka.broker.broker import Broker
from embedkafka.cluster.brokers import Brokers
from embedkafka.cluster.cluster_state import PartitionStatus
from embedkafka.cluster.reports.description import find_views
from embedkafka.runtime.failures import EmbedKafkaError, InvalidArgument
from embedkafka.runtime.topic_names import GROUP_METADATA_TOPIC
from embedkafka.wire.net.client import BrokerClient
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.topics import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
)

if TYPE_CHECKING:
    from embedkafka.cluster.reports.followers import FollowerStatus

_CLIENT_ID: Final = "embedkafka-admin"
_ELECT_LEADERS, _REASSIGN = 2, 1
_PREFERRED: Final = 0
_ELSEWHERE: Final = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)


class BrokersOnDemand:
    """`owned.reach.OnDemand` for the brokers of this process."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers

    def move_leader(self, topic: str, partition: int, *, to: int, timeout_s: float) -> None:
        """Makes `to` the preferred replica, and lets the controller elect the preferred leader."""
        status = self._brokers.state.require_partition(topic, partition)
        target = self._brokers.require(to).id
        if target not in status.replicas:
            raise InvalidArgument(
                f"broker {target} has no replica of {topic}-{partition}; its replicas are on "
                f"{', '.join(map(str, status.replicas))}"
            )
        if target not in status.isr:
            raise EmbedKafkaError(f"broker {target} is not in sync and cannot lead: {status}")
        if status.leader == target:
            return
        client = _controller_client(self._brokers)
        try:
            _prefer(self._brokers, client, status, target, timeout_s)
            _elect_preferred(client, status)
        finally:
            client.close()
        probe = self._brokers.state.partition(topic, partition, lambda now: now.leader == target)
        self._brokers.waiting.await_state(
            f"broker {target} to lead {topic}-{partition}", probe, timeout_s
        )

    def roll(self, topic: str) -> None:
        """Starts a new segment in every replica of a topic."""
        self._brokers.state.require_topic(topic)
        for broker in self._brokers.within_reach():
            broker.logs.roll(topic)

    def compact(self, topic: str) -> None:
        """Compacts every replica of a topic."""
        self._brokers.state.require_topic(topic)
        if not any(
            broker.config.log_config(topic).compacts for broker in self._brokers.within_reach()
        ):
            raise InvalidArgument(f"{topic} is not compacted: its cleanup.policy has no `compact`")
        for broker in self._brokers.within_reach():
            for copy in broker.logs.moving():
                if copy.topic_partition.topic == topic:
                    raise EmbedKafkaError(
                        f"{copy.topic_partition} of broker {broker.id} is moving to "
                        f"{copy.directory.parent}, and compaction is paused until it is there"
                    )
        _spread_high_watermarks(self._brokers, topic)
        for broker in self._brokers.within_reach():
            broker.logs.compact(topic)

    def apply_retention(self, topic: str) -> None:
        """Lets retention look at every replica of a topic."""
        self._brokers.state.require_topic(topic)
        _spread_high_watermarks(self._brokers, topic)
        for broker in self._brokers.within_reach():
            broker.logs.apply_retention(topic)

    def expire(self, group: str, *, timeout_s: float) -> None:
        """Lets the committed offsets of a group expire."""
        answers: dict[int, ErrorCode] = {}
        asked = self._brokers.within_reach()

        def note(broker: Broker, error: ErrorCode) -> None:
            answers[broker.id] = error
            self._brokers.on_change()

        for broker in asked:
            broker.groups.expire_group(group, lambda error, broker=broker: note(broker, error))  # type: ignore[misc]  # a lambda with a default

        def probe() -> str | None:
            silent = [broker.id for broker in asked if broker.id not in answers]
            return f"brokers {silent} have not answered" if silent else None

        self._brokers.waiting.await_state(f"the offsets of {group} to expire", probe, timeout_s)
        found = [error for error in answers.values() if error not in _ELSEWHERE]
        if found == [ErrorCode.NONE]:
            return
        reasons = {
            ErrorCode.GROUP_ID_NOT_FOUND: "there is no such group",
            ErrorCode.NON_EMPTY_GROUP: "its members still subscribe to all its topics",
        }
        has_groups = self._brokers.zk.find_topic(GROUP_METADATA_TOPIC) is not None
        error = found[0] if found else ErrorCode.COORDINATOR_NOT_AVAILABLE
        if not has_groups:
            error = ErrorCode.GROUP_ID_NOT_FOUND
        reason = reasons.get(error, f"{error.name}: {error.message}")
        raise EmbedKafkaError(f"the offsets of group {group!r} cannot expire: {reason}")

    def followers(self, topic: str, partition: int) -> "list[FollowerStatus]":
        """How far each follower of a partition is."""
        from embedkafka.cluster.reports.followers import find_followers  # seldom asked for

        return find_followers(self._brokers, topic, partition)

    def explain(self, topic: str, partition: int) -> str:
        """Why a partition is as it is."""
        from embedkafka.cluster.reports.explanation import explain_partition  # seldom asked for

        return explain_partition(self._brokers, topic, partition)


def _prefer(
    brokers: Brokers, client: BrokerClient, status: PartitionStatus, to: int, timeout_s: float
) -> None:
    topic, partition = status.topic, status.partition
    order = (to, *(replica for replica in status.replicas if replica != to))
    if tuple(status.replicas) == order:
        return
    _Topic = AlterPartitionReassignmentsRequest.Topic
    wanted = _Topic.Partition(partition_index=partition, replicas=order)
    request = AlterPartitionReassignmentsRequest(topics=[_Topic(name=topic, partitions=[wanted])])
    answer = client.call(request, _REASSIGN)
    _check(f"reorder the replicas of {topic}-{partition}", answer.error_code)
    for result in answer.responses:
        for one in result.partitions:
            _check(f"reorder the replicas of {topic}-{partition}", one.error_code)
    probe = brokers.state.partition(topic, partition, lambda now: tuple(now.replicas) == order)
    brokers.waiting.await_state(f"broker {to} to be preferred", probe, timeout_s)


def _elect_preferred(client: BrokerClient, status: PartitionStatus) -> None:
    topic, partition = status.topic, status.partition
    wanted = ElectLeadersRequest.Topic(topic=topic, partitions=[partition])
    request = ElectLeadersRequest(election_type=_PREFERRED, topic_partitions=[wanted])
    answer = client.call(request, _ELECT_LEADERS)
    _check(f"move the leader of {topic}-{partition}", answer.error_code)
    for result in answer.replica_election_results:
        for one in result.partition_result:
            if one.error_code != ErrorCode.ELECTION_NOT_NEEDED:
                _check(f"move the leader of {topic}-{partition}", one.error_code)


def elect_controller(brokers: Brokers, broker_id: int, timeout_s: float) -> None:
    """Lets a broker register as the controller in place of the present one."""
    handle = brokers.require(broker_id)
    if not handle.is_reachable:
        raise EmbedKafkaError(f"broker {handle.id} cannot be controller: it is not reachable")
    controller = handle.require_broker().controller
    assert controller is not None, "a running broker is a candidate"
    controller.take_control()
    known = brokers.state.controller()

    def probe() -> str | None:
        found = brokers.state.find_controller()
        return known() if found == handle.id else f"broker {found} is the controller"

    brokers.waiting.await_state(f"broker {handle.id} to be the controller", probe, timeout_s)


def _spread_high_watermarks(brokers: Brokers, topic: str) -> None:
    """Gives in-sync followers the leader's high watermark, which their next fetch would bring.

    Only committed records are compacted or deleted, and followers hear of the last ones a fetch
    later.
    """
    running = brokers.within_reach()
    for view, is_led in find_views(running):
        if not is_led or view.topic_partition.topic != topic:
            continue
        for broker in running:
            log = broker.logs.find(view.topic_partition)
            if broker.id in view.isr and log is not None:
                log.update_high_watermark(max(view.high_watermark, log.high_watermark))


def _controller_client(brokers: Brokers) -> BrokerClient:
    found = brokers.state.find_controller()
    if found is None:
        raise EmbedKafkaError("there is no controller now: `await_controller` waits for one")
    return brokers.require(found).require_broker().make_client(_CLIENT_ID)


def _check(what: str, code: int) -> None:
    if code:
        error = ErrorCode(code)
        raise EmbedKafkaError(f"cannot {what}: {error.name}: {error.message}")
