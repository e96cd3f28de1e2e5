"""docs/reference/client-properties.md: what becomes of each property of Kafka's Java client."""

from collections.abc import Iterator

from embedkafka.spark import client_settings
from tests.tidy.pages.tables import table

HEAD = """# Client properties

`make docs` writes this page from the code. It is about the file that `--kafka-client-config` names:
properties of Kafka's Java client, such as credentials.

Spark gets every property that is not refused, as the option `kafka.<property>`. Topic handles use
librdkafka, which has most of them under the same name:

"""


def render() -> str:
    return HEAD + table(["property", "for librdkafka"], _rows())


def _rows() -> Iterator[tuple[str, ...]]:
    meanings = {
        "bootstrap.servers": "the cluster, unless `--kafka-bootstrap` names it",
        **dict.fromkeys(client_settings.SAME_NAME, "the same"),
        **client_settings.TRANSLATED,
        **dict.fromkeys(client_settings.JAVA_ONLY, "not used"),
        **{name: f"refused: {why}" for name, why in client_settings.REFUSED.items()},
    }
    for name in sorted(meanings):
        yield f"`{name}`", meanings[name]
