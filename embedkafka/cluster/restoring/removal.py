"""Removes topics so that they stay away, although clients that used them stay connected.

Owner: none; the brokers share `auto_creation`, and the JVM's pool owns Spark's producers.
Not here: which topics go (`isolation`, `reset`, `snapshot`).
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import partial

from embedkafka.broker.topics.auto_creation import Clients
from embedkafka.cluster.brokers import Brokers
from embedkafka.cluster.restoring.connections import find_present
from embedkafka.spark.producers import close_producers


@contextmanager
def removing_topics(
    brokers: Brokers, names: Collection[str] | None = None, *, listener: str | None = None
) -> Iterator[None]:
    """Around steps that remove topics, these or any, and perhaps create them again.

    No client has one of them created inside. Afterwards, clients that were connected, through
    `listener` if it is given, bring one that was removed back only by writing to it. Spark's idle
    producers would ask for it again and again, so they are closed.
    """
    with brokers.auto_creation.suspended(names):
        present = find_present(brokers, listener)
        before = brokers.zk.topic_ids()
        yield
        left = brokers.zk.topic_ids()
        removed = {
            name: id_
            for name, id_ in before.items()
            if left.get(name) != id_ and (names is None or name in names)
        }
        if removed:
            close_producers(
                [address for handle in brokers.all() for address in handle.last_addresses.values()]
            )
            present = _either(present, find_present(brokers, listener))
            brokers.auto_creation.on_removed(removed, present, find_present(brokers).keys())
        if names is None:
            for handle in brokers.all():
                handle.lost_connections = None


def _either(some: Clients, others: Clients) -> Clients:
    def is_there(client_id: str) -> bool:
        return any(one[client_id]() for one in (some, others) if client_id in one)

    return {client_id: partial(is_there, client_id) for client_id in some.keys() | others.keys()}
