"""Writes docs/compatibility.md from the handler table: `python tests/tidy/compatibility.py`."""

from pathlib import Path

from embedkafka.protocol.api_keys import ApiKey
from embedkafka.protocol.messages.registry import request_type, versions
from embedkafka.server.api_table import HANDLERS, load_handler

PAGE = Path(__file__).parents[2] / "docs" / "compatibility.md"

HEAD = """# What the broker answers

Written from `embedkafka/server/api_table.py` by `make docs`; the tests check that it is current.
"Declared" are the versions the protocol layer can read and write, from the oldest ever to the
newest of Kafka 4.x.

| key | API | answered | declared | does |
|---|---|---|---|---|
"""


def render() -> str:
    return HEAD + "".join(_row(key) for key in sorted(HANDLERS)) + _unanswered()


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
