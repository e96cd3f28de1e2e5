"""Requests in lines, for people: what clients asked last, and what was answered with errors.

Owner: none; it only reads.
Invariants: equal lines are one line with a count. A body that is not kept any more costs its part
of a line.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Final

from embedkafka.cluster.request_log import SeenRequest, is_own_client
from embedkafka.runtime.failures import EmbedKafkaError

_LINES: Final = 20
_NAMED: Final = 3  # topics of one request
_GONE: Final = ("UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_ID")
_METADATA, _HANDSHAKE = "METADATA", "API_VERSIONS"
_HEARTBEATS: Final = frozenset(
    {
        "CONSUMER_GROUP_HEARTBEAT",
        "HEARTBEAT",
        "JOIN_GROUP",
        "OFFSET_COMMIT",
        "SHARE_GROUP_HEARTBEAT",
        "STREAMS_GROUP_HEARTBEAT",
        "SYNC_GROUP",
    }
)


def topics_of(requests: Iterable[SeenRequest]) -> frozenset[str]:
    """Every topic that one of the requests names, apart from what clients keep an eye on."""
    used = (seen for seen in requests if seen.api != _METADATA)
    return frozenset(topic for seen in used for topic in _topics(seen))


def groups_of(requests: Iterable[SeenRequest]) -> frozenset[str]:
    """Every consumer group that one of the requests names."""
    return frozenset(group for seen in requests for group in _groups(seen))


def last_heartbeats(requests: Iterable[SeenRequest]) -> dict[str, float]:
    """When the coordinator last heard of a member, by its id, on the cluster's monotonic clock."""
    heard = {}
    for seen in requests:
        if seen.api in _HEARTBEATS:
            try:
                heard[seen.request.member_id] = seen.received_ms
            except EmbedKafkaError:
                continue  # its body is not kept any more
    return heard


def error_lines(
    requests: Sequence[SeenRequest], is_refused: Callable[[str, str], bool]
) -> list[str]:
    """Such as "PRODUCE safe-0 -> NOT_ENOUGH_REPLICAS x 14  (client shop)", the newest last.

    `is_refused` knows whether a topic is not created for a client that asks for it: these are one
    line for each client. A topic handle whose topic is gone is left out: it was the test that
    deleted it, and a later call of the handle says so itself.
    """
    found: Counter[str] = Counter()
    refused: dict[str, set[str]] = {}
    for seen in requests:
        client_id = seen.client_id or ""
        for place, error in _errors(seen):
            if error in _GONE and is_own_client(client_id):
                continue
            if seen.api == _METADATA and is_refused(place, client_id):
                refused.setdefault(client_id, set()).add(place)
                continue
            # Removed first, so that the order is that of the last time.
            line = f"{' '.join(filter(None, [seen.api, place]))} -> {error}"
            key = f"{line}\n  (client {seen.client_id or '-'}, broker {seen.broker})"
            found[key] = found.pop(key, 0) + 1
    lines = [
        f"METADATA {_some(topics)} -> not created again  (client {client_id or '-'} was connected "
        "when they were removed: `kafka.topic` creates them)"
        for client_id, topics in refused.items()
    ]
    for key, count in list(found.items())[-_LINES:]:
        line, client = key.split("\n")
        lines.append(f"{line}{_times(count)}{client}")
    return lines


def request_lines(requests: Sequence[SeenRequest], age_ms: Callable[[float], float]) -> list[str]:
    """The last requests, the newest last; equal ones are one line, where the last of them was."""
    found: dict[str, tuple[int, float]] = {}
    for seen in requests:
        if seen.api == _HANDSHAKE:
            continue
        line = "  ".join([str(seen), *sorted(_topics(seen))[:_NAMED]])
        count, _ = found.pop(line, (0, 0.0))
        found[line] = (count + 1, seen.received_ms)
    return [
        f"{span(age_ms(last_ms), digits=3)} ago  {text}{_times(count)}"
        for text, (count, last_ms) in list(found.items())[-_LINES:]
    ]


def _some(names: Collection[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(sorted(names)[:_NAMED])}{more}"


def span(length_ms: float, *, digits: int = 1) -> str:
    """A length of time, such as "0.312 s", "12 min 5 s", "3 h 20 min" or "8 d 0 h"."""
    if length_ms < 60_000:
        return f"{length_ms / 1000:.{digits}f} s"
    minutes, seconds = divmod(int(length_ms / 1000), 60)
    hours, minutes = divmod(minutes, 60)
    if not hours:
        return f"{minutes} min {seconds} s"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if days else f"{hours} h {minutes} min"


def _times(count: int) -> str:
    return f" x {count}" if count > 1 else ""


def _topics(seen: SeenRequest) -> frozenset[str]:
    try:
        return seen.topics
    except EmbedKafkaError:
        return frozenset()


def _groups(seen: SeenRequest) -> frozenset[str]:
    try:
        return seen.groups
    except EmbedKafkaError:
        return frozenset()


def _errors(seen: SeenRequest) -> Iterator[tuple[str, str]]:
    try:
        yield from seen.placed_errors
    except EmbedKafkaError:
        return  # the answer was too large to be kept
