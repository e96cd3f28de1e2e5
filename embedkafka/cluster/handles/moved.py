"""The names that have moved to handles, and what raises their `AttributeError`.

Owner: none.
"""

from typing import TYPE_CHECKING, Final, NoReturn

if TYPE_CHECKING:
    from embedkafka.cluster.handles.reach import ClusterReach

MOVED: Final = {
    "add_broker": "kafka.brokers.add()",
    "add_partitions": "topic.add_partitions(count)",
    "await_brokers": "kafka.brokers.await_all()",
    "await_compaction": "topic.await_compaction()",
    "await_controller": "kafka.brokers.await_controller()",
    "await_group": "kafka.group(group).await_state(state, members=...)",
    "await_group_stable": "kafka.group(group).await_stable()",
    "await_isr": "topic.await_isr(partition, size=...)",
    "await_lag": "kafka.group(group).await_lag(lag, topic=...)",
    "await_leader": "topic.await_leader(partition)",
    "await_no_leader": "topic.await_no_leader(partition)",
    "await_offsets": "topic.await_offsets(offsets)",
    "await_retention": "topic.await_retention()",
    "await_topic_gone": "topic.await_gone()",
    "compact": "topic.compact()",
    "controller": "kafka.brokers.controller",
    "coordinator_of": "kafka.group(group).coordinator() or kafka.transaction_coordinator(id)",
    "delete_topic": "topic.delete()",
    "describe_partition": "topic.partition(number)",
    "elect_controller": "kafka.broker(id).become_controller()",
    "expire": "kafka.group(group).expire()",
    "explain": "topic.explain(partition)",
    "followers": "topic.followers(partition)",
    "heal": "kafka.brokers.heal()",
    "lag": "kafka.group(group).lag(topic)",
    "leader_of": "topic.leader(partition)",
    "move_leader": "topic.move_leader(partition, to=...)",
    "partition": "kafka.brokers.partition(side, side)",
    "remove_broker": "kafka.broker(id).remove()",
    "roll": "topic.roll()",
    "stream": "topic.stream(spark)",
}
"""Methods that clusters had -> where they are now."""


def refuse_moved(cluster: object, name: str) -> None:
    """Raises an error that names the new place of a cluster's method, if it has moved."""
    if (place := MOVED.get(name)) is not None:
        whose = " of the handle from `kafka.topic(...)` or `kafka.existing_topic(...)`"
        raise AttributeError(
            f"`kafka.{name}` has moved: use `{place}`{whose * place.startswith('topic.')}",
            name=name,
            obj=cluster,
        )


def refuse_missing(handle: object, name: str, noun: str) -> NoReturn:
    """Raises for a name that a cluster or handle lacks, unless its reach has more to say."""
    __tracebackhide__ = True
    reach: ClusterReach | None = vars(handle).get("_reach")
    if reach is not None and not name.startswith("_"):
        reach.on_missing(noun, name)
    raise AttributeError(
        f"{type(handle).__name__!r} object has no attribute {name!r}", name=name, obj=handle
    )
