"""docs/reference/api.md: the public classes and functions, from their docstrings."""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from tests.tidy.pages.docstrings import SECTION, Member, arguments, define, items

HEAD: Final = """# Python API

`make docs` writes this page from the docstrings. Everything here is imported from `embedkafka`,
unless a heading says otherwise.
"""


class Section(NamedTuple):
    """Names under one heading."""

    title: str
    about: str
    names: Sequence[str]
    home: str = "embedkafka"
    """The module that the names are imported from."""


SECTIONS: Final = (
    Section(
        "The cluster",
        "An `EmbeddedKafka` is a `Cluster`, so it has the methods of both.",
        ("EmbeddedKafka", "Cluster", "EmbeddedKafkaTestCase", "ClusterConfig", "TopicSpec"),
    ),
    Section(
        "Topics and messages",
        "`kafka.topic(...)` and `kafka.existing_topic(...)` return a `Topic`, and an `OwnedTopic` "
        "if the cluster is embedded.",
        ("Topic", "OwnedTopic", "Message"),
    ),
    Section(
        "Groups",
        "`kafka.group(...)` returns a `GroupHandle`, and an `OwnedGroup` if the cluster is "
        "embedded.",
        ("GroupHandle", "OwnedGroup", "GroupStatus", "GroupMember"),
    ),
    Section(
        "Brokers",
        "From `kafka.brokers`, `kafka.broker(id)` and `kafka.brokers.add()`. Those of an embedded "
        "cluster are an `OwnedBrokers` and `OwnedBroker`s.",
        ("BrokerHandles", "OwnedBrokers", "BrokerHandle", "OwnedBroker", "BrokerState"),
    ),
    Section(
        "Faults",
        "From `kafka.faults`.",
        (
            "Faults",
            "RequestFilter",
            "Fault",
            "LinkFault",
            "FaultPlan",
            "FaultStep",
            "Disk",
            "ApiKey",
            "ErrorCode",
        ),
    ),
    Section(
        "Facts about a cluster",
        "",
        (
            "PartitionStatus",
            "PageServer",
            "SeenRequest",
            "StateChange",
            "WaitingRequest",
            "FollowerStatus",
            "ControllerEvent",
            "Metrics",
            "Metric",
            "TopicPartition",
            "Mark",
            "Snapshot",
        ),
    ),
    Section(
        "Access control",
        "From `kafka.acls`.",
        (
            "Security",
            "Acl",
            "Acls",
            "Refusal",
            "ResourcePattern",
            "ResourceType",
            "PatternType",
            "AclOperation",
            "PermissionType",
        ),
    ),
    Section("Logins", "From `kafka.logins`.", ("Logins",)),
    Section("Quotas", "From `kafka.quotas`.", ("Quotas", "ClientQuota")),
    Section("Time", "From `kafka.clock`.", ("SystemClock", "Frozen")),
    Section(
        "Spark",
        "Imported from `embedkafka.spark`; see [Drive streaming queries](../how-to/streaming.md).",
        (
            "drain",
            "immediate_triggers",
            "restart",
            "crash_between_write_and_commit",
            "progress",
            "assert_topic_equals",
            "assert_stream",
            "latest_by_key",
            "run_script",
            "RunningScript",
            "scripts.redirections.Redirected",
            "ScriptFailed",
            "run_pipeline",
            "PipelineFailed",
            "local_session",
        ),
        home="embedkafka.spark",
    ),
    Section(
        "Streams in steps",
        "Imported from `embedkafka.spark`; see [Drive streaming queries](../how-to/streaming.md).",
        (
            "check_stream",
            "AddRecords",
            "CheckTopic",
            "CheckLatest",
            "Crash",
            "Restart",
            "AdvanceClock",
        ),
        home="embedkafka.spark",
    ),
    Section(
        "Spark on a cluster",
        "Imported from `embedkafka.spark.remote`.",
        ("cluster_session", "connect_session", "connect_server"),
        home="embedkafka.spark.remote",
    ),
    Section(
        "Audit of delivery",
        "Imported from `embedkafka.spark`; see [Prove delivery](../how-to/audit.md).",
        (
            "audit",
            "assert_delivered",
            "delivery.result.Delivery",
            "delivery.result.PartitionDelivery",
            "delivery.result.Example",
            "delivery.result.AuditedRecord",
            "delivery.result.Kind",
            "delivery.audit.NothingToAudit",
        ),
        home="embedkafka.spark",
    ),
    Section(
        "Exploring a job",
        "Imported from `embedkafka.explore`; see [Explore a job](../how-to/explore.md).",
        (
            "explore",
            "Explored",
            "Refuted",
            "Input",
            "Script",
            "Options",
            "latest_by_key",
            "latest_by",
            "all_records",
            "delta",
            "iceberg",
            "table",
            "files",
            "rows",
        ),
        home="embedkafka.explore",
    ),
    Section(
        "Errors and warnings",
        "",
        (
            "EmbedKafkaError",
            "ConfigError",
            "ConfigWarning",
            "InvalidArgument",
            "ClusterClosed",
            "DirectoryInUse",
            "AwaitTimeout",
            "QueryFailed",
            "UndecodableMessage",
            "BackgroundFailure",
        ),
    ),
)


def render() -> str:
    return HEAD + "".join(_section(section) for section in SECTIONS)


def _section(section: Section) -> str:
    about = f"\n{section.about}\n" if section.about else ""
    return f"\n## {section.title}\n{about}" + "".join(
        _definition(f"{section.home}.{name}") for name in section.names
    )


def _definition(path: str) -> str:
    found = define(path)
    shown = [f"\n### `{found.name}`\n"]
    takes = arguments(found.text)
    if found.signature and (takes or not found.is_class):  # users get the others from a method
        shown.append(_signature(found.signature))
    shown.append(_text(found.text))
    values = [each for each in found.members if each.is_value and each.name not in takes]
    if values:
        shown.append("\n**Attributes**\n\n" + "".join(map(_value, values)))
    shown += [
        f"\n#### `{found.name}.{member.name}`\n{_signature(member.signature)}{_text(member.text)}"
        for member in found.members
        if not member.is_value
    ]
    return "".join(shown)


def _signature(signature: str) -> str:
    return f'\n```python {{not-run="it is a signature"}}\n{signature}\n```\n'


def _value(member: Member) -> str:
    about = " ".join(member.text.split())
    return f"- `{member.name}`: `{member.signature}`{'. ' if about else ''}{about}\n"


def _text(text: str) -> str:
    """A docstring as Markdown: its sections become lists."""
    if not text:
        return ""
    return "\n" + SECTION.sub(_list, text + "\n").rstrip() + "\n"


def _list(section: re.Match[str]) -> str:
    title, body = section.groups()
    if title == "Returns":
        return f"**Returns** {' '.join(body.split())}\n"
    rows = "".join(f"- `{name}`: {meaning}\n" for name, meaning in items(body).items())
    return f"**{'Arguments' if title == 'Args' else title}**\n\n{rows}\n"
