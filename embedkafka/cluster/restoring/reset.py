"""Empties a running cluster of topics, groups, offsets, transactions and changed settings.

The controller deletes all topics, internal ones too, and the coordinators' state goes with them.
Nothing restarts, so clients stay connected.

Owner: none; it writes to ZooKeeper and waits for the brokers.
Not here: keeping clients from bringing topics back (`removal`), restoring a state that was not
empty (`snapshot`).
"""

from collections.abc import Collection, Iterable, Mapping
from uuid import UUID

from embedkafka.broker.settings.dynamic import TOPICS
from embedkafka.cluster.brokers import Brokers
from embedkafka.cluster.waiting import Probe
from embedkafka.runtime.failures import EmbedKafkaError


def reset_cluster(brokers: Brokers, kept: Collection[tuple[str, str, str]] = ()) -> None:
    """Starts all brokers, and returns when everything is gone from them and from ZooKeeper.

    Only the settings in `kept` stay: type and name of the entity, and key.
    """
    brokers.bring_back()
    doomed = brokers.zk.topic_ids()
    if doomed:
        _require_deletion(brokers)
        brokers.zk.request_topic_deletions(doomed)
    for (entity_type, name), values in brokers.zk.overrides().items():
        if entity_type == TOPICS:
            continue  # theirs go with them
        left = {key: value for key, value in values.items() if (entity_type, name, key) in kept}
        for handle in brokers.running():
            handle.require_broker().config.set_overrides(entity_type, name, left)
    brokers.set_revoked({})
    brokers.zk.delete_consumer_offsets()
    brokers.waiting.await_state("all topics to be gone", _gone(brokers, doomed))
    brokers.waiting.await_state(
        "all brokers to have dropped their replicas", brokers.state.membership()
    )


def delete_topics(brokers: Brokers, names: Iterable[str]) -> None:
    """Deletes topics, and returns when no broker knows them any more."""
    _require_deletion(brokers)
    known = brokers.zk.topic_ids()
    doomed = {name: known[name] for name in names if name in known}
    brokers.zk.request_topic_deletions(doomed)
    brokers.waiting.await_state(f"{', '.join(doomed)} to be gone", _gone(brokers, doomed))


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
