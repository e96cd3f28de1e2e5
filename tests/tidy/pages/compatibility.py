"""docs/compatibility.md: the broker's APIs and versions, from the table of what it serves."""

from embedkafka.broker.api_table import SERVED, load_api
from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.messages.registry import request_type, versions

HEAD = """# Compatibility

`make docs` writes this page from `embedkafka/broker/api_table.py`, the table that the broker itself
dispatches from. The tests check that it is current.

In short: idempotent and transactional producers; fetches with sessions, long polls and reads from
followers; topic and config administration; consumer groups of both protocols; replication with
failover, elections and reassignment; retention and compaction. Clients older than Kafka 0.11 work,
and so do those of 4.x.

Not supported:

- Tiered storage.
- Share groups and Streams groups.

See also the [settings](reference/settings.md), including those without effect, and the
[differences from Apache Kafka](differences.md).

## APIs

The *answered* versions are those that the broker advertises. The *declared* versions are those that
the protocol layer can read and write, from the oldest ever to the newest of Kafka 4.x.

| key | API | answered | declared | what it does |
|---|---|---|---|---|
"""

UNANSWERED_HEAD = """
## Declared, not answered

The broker does not advertise these.

| key | API | declared |
|---|---|---|
"""


def render() -> str:
    return HEAD + "".join(_row(key) for key in sorted(SERVED)) + _unanswered()


def _row(key: ApiKey) -> str:
    api = SERVED[key]
    summary = (load_api(key).handler.__doc__ or "").strip().splitlines()[0]
    plane = " (between brokers)" if not api.for_clients else ""
    cells = (key.value, api_name(key) + plane, _span(api.versions), _declared(key), summary)
    return "| " + " | ".join(map(str, cells)) + " |\n"


def _unanswered() -> str:
    missing = [key for key in sorted(ApiKey) if key not in SERVED and _is_declared(key)]
    rows = "".join(f"| {key.value} | {api_name(key)} | {_declared(key)} |\n" for key in missing)
    return UNANSWERED_HEAD + rows if rows else ""


def _is_declared(key: ApiKey) -> bool:
    try:
        request_type(key)
    except KeyError:
        return False
    return True


def _declared(key: ApiKey) -> str:
    return _span(versions(request_type(key)))


def _span(span: tuple[int, int]) -> str:
    first, last = span
    return str(first) if first == last else f"{first} to {last}"


def api_name(key: ApiKey) -> str:
    """An API as the protocol calls it."""
    return "".join(part.capitalize() for part in key.name.split("_"))
