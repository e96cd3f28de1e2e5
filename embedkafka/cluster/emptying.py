"""Emptying a cluster that runs on: no topic, group, offset, transaction or changed setting is left.

Topics go the way every deletion goes, through the controller, internal ones included, and what
coordinators know goes with them. Nothing is restarted, so clients stay connected; those that have
a topic created again meanwhile, by asking for it, may keep that one.

Owner: nobody; it writes to the store and waits for the brokers.
Not here: going back to a state that was not empty (`snapshot`).
"""

from collections.abc import Mapping
from uuid import UUID

from embedkafka.cluster.nodes import Nodes
from embedkafka.cluster.waiting import Probe
from embedkafka.runtime.failures import EmbedKafkaError


def empty(nodes: Nodes) -> None:
    """Returns when everything is gone from ZooKeeper and from all brokers, all of which run."""
    nodes.bring_back()
    doomed = nodes.zk.topic_ids()
    if doomed:
        _require_deletion(nodes)
        nodes.zk.request_topic_deletions(doomed)
    for entity_type, name in nodes.zk.configured_everywhere():
        for handle in nodes.running():
            handle.require_broker().config.set_overrides(entity_type, name, {})
    nodes.zk.delete_consumer_offsets()
    nodes.waiting.await_fact("all topics to be gone", _gone(nodes, doomed))
    nodes.waiting.await_fact("brokers to have nothing left of them", nodes.facts.membership())


def _gone(nodes: Nodes, doomed: Mapping[str, UUID | None]) -> Probe:
    unknown = nodes.facts.everywhere(
        lambda snapshot: not any(snapshot.topic_ids.get(name) == id for name, id in doomed.items())
    )

    def probe() -> str | None:
        left = nodes.zk.topic_ids(nodes.on_watch).items() & doomed.items()
        return f"ZooKeeper has {', '.join(sorted(name for name, _ in left))}" if left else unknown()

    return probe


def _require_deletion(nodes: Nodes) -> None:
    for handle in nodes.running():
        if not handle.require_broker().spec.config.flag("delete.topic.enable"):
            raise EmbedKafkaError("with delete.topic.enable=false no topic can be deleted")
