"""Writes docs/compatibility.md from the code's tables: `python -m tests.tidy.compatibility`."""

from collections.abc import Mapping
from pathlib import Path

from embedkafka.cluster.config import DECIDED_HERE
from embedkafka.protocol.api_keys import ApiKey
from embedkafka.protocol.messages.registry import request_type, versions
from embedkafka.server.api_table import HANDLERS, load_handler
from embedkafka.server.config.inert import INERT, INERT_TOPIC

PAGE = Path(__file__).parents[2] / "docs" / "compatibility.md"

HEAD = """# What the broker answers

Written from `embedkafka/server/api_table.py` and `config/inert.py` by `make docs`; the tests check
that it is current.
"Declared" are the versions the protocol layer can read and write, from the oldest ever to the
newest of Kafka 4.x.

| key | API | answered | declared | does |
|---|---|---|---|---|
"""


def render() -> str:
    apis = HEAD + "".join(_row(key) for key in sorted(HANDLERS)) + _unanswered()
    return apis + _settings()


def _row(key: ApiKey) -> str:
    api = HANDLERS[key]
    summary = (load_handler(api.handler).__doc__ or "").strip().splitlines()[0]
    plane = " (between brokers)" if api.control_plane else ""
    cells = (key.value, _name(key) + plane, _span(api.versions), _declared(key), summary)
    return "| " + " | ".join(map(str, cells)) + " |\n"


def _unanswered() -> str:
    missing = [key for key in sorted(ApiKey) if key not in HANDLERS and _is_declared(key)]
    rows = "".join(f"| {key.value} | {_name(key)} | {_declared(key)} |\n" for key in missing)
    return (
        "\n## Declared, not answered yet\n\nClients are not told of these.\n\n"
        "| key | API | declared |\n|---|---|---|\n" + rows
    )


SETTINGS_HEAD = """
## Settings without effect

Every broker, topic and group setting of Kafka works here, also when it is changed at run time, but
for these. They come from `embedkafka/server/config/inert.py`, as the warnings and refusals do:

- Setting one of them produces a `ConfigWarning` (from the command, a line on stderr), unless the
  value is the default.
- Those marked *refused* raise `ConfigError` instead: a test could pass because they were ignored.
- Changing one at run time answers INVALID_REQUEST with the reason.

A name that ends in a dot stands for all that begin with it.

| broker setting | why it has no effect |
|---|---|
"""

ONE_PROCESS_HEAD = """
These have no effect in a cluster of one process, which decides them itself:

| broker setting | why it has no effect |
|---|---|
"""

TOPIC_HEAD = """
These are accepted for topics, as Kafka accepts them:

| topic setting | why it has no effect |
|---|---|
"""


def _settings() -> str:
    rows = {
        f"`{name}`{' *refused*' if inert.refused else ''}": inert.reason
        for name, inert in sorted(INERT.items())
    }
    decided = {f"`{name}`": reason for name, reason in sorted(DECIDED_HERE.items())}
    topics = {f"`{name}`": inert.reason for name, inert in INERT_TOPIC.items()}
    return (
        SETTINGS_HEAD
        + _table(rows)
        + ONE_PROCESS_HEAD
        + _table(decided)
        + TOPIC_HEAD
        + _table(topics)
    )


def _table(rows: Mapping[str, str]) -> str:
    return "".join(f"| {name} | {reason} |\n" for name, reason in rows.items())


def _is_declared(key: ApiKey) -> bool:
    try:
        request_type(key)
    except KeyError:
        return False
    return True


def _declared(key: ApiKey) -> str:
    return _span(versions(request_type(key)))


def _span(span: tuple[int, int]) -> str:
    return f"{span[0]} to {span[1]}"


def _name(key: ApiKey) -> str:
    return "".join(part.capitalize() for part in key.name.split("_"))


if __name__ == "__main__":
    PAGE.write_text(render())
