"""Empties a running cluster of topics, groups, offsets, transactions and changed settings.

The controller deletes all topics, internal ones too, and the coordinators' state goes with them.
Nothing restarts, so clients stay connected. A client that has a topic auto-created during the
reset may keep that topic.

Owner: none; it writes to ZooKeeper and waits for the brokers.
Not here: restoring a state that was not empty (`snapshot`).
"""

from collections.abc import Mapping
from uuid import UUID

from embedkafka.cluster.brokers import Brokers
from embedkafka.cluster.waiting import Probe
from embedkafka.runtime.failures import EmbedKafkaError


def reset_cluster(brokers: Brokers) -> None:
    """Starts all brokers, and returns when everything is gone from them and from ZooKeeper."""
    brokers.bring_back()
    doomed = brokers.zk.topic_ids()
    if doomed:
        _require_deletion(brokers)
        brokers.zk.request_topic_deletions(doomed)
    for entity_type, name in brokers.zk.configured_everywhere():
        for handle in brokers.running():
            handle.require_broker().config.set_overrides(entity_type, name, {})
    brokers.zk.delete_consumer_offsets()
    brokers.waiting.await_state("all topics to be gone", _gone(brokers, doomed))
    brokers.waiting.await_state(
        "all brokers to have dropped their replicas", brokers.state.membership()
    )


def _gone(brokers: Brokers, doomed: Mapping[str, UUID | None]) -> Probe:
    unknown = brokers.state.everywhere(
        lambda snapshot: not any(snapshot.topic_ids.get(name) == id for name, id in doomed.items())
    )

    def probe() -> str | None:
        found = brokers.zk.topic_ids(brokers.on_watch).items() & doomed.items()
        left = {name for name, _ in found}
        # The controller removes its mark last; until then the name cannot be used again.
        left |= brokers.zk.topic_deletions(brokers.on_watch) & doomed.keys()
        return f"ZooKeeper has {', '.join(sorted(left))}" if left else unknown()

    return probe


def _require_deletion(brokers: Brokers) -> None:
    for handle in brokers.running():
        if not handle.require_broker().spec.config.flag("delete.topic.enable"):
            raise EmbedKafkaError(
                "the cluster cannot be reset: delete.topic.enable=false keeps its topics"
            )
