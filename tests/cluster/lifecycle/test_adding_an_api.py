"""The steps of CONTRIBUTING's "Adding an API", walked through with an API that was never served.

A module each stands for the files that the steps name. Everything else follows from them: what
ApiVersions offers, the client that is refused, faults, the log of requests.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any, Final

import pytest

from embedkafka import EmbeddedKafka
from embedkafka.broker import api_table, dispatch
from embedkafka.broker.api_table import Api, Need, Served
from embedkafka.broker.dispatch import RequestContext
from embedkafka.broker.parts import BrokerParts
from embedkafka.security.acl.operations import AclOperation, ResourceType
from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.message import message, since
from embedkafka.wire.protocol.messages import registry
from embedkafka.wire.protocol.messages.core import ApiVersionsRequest
from embedkafka.wire.protocol.refusals import refusal
from embedkafka.wire.protocol.wire_types import Int16, Int32, TopicName
from tests.tidy.sources import ROOT
from tests.wire.raw_client import RawClient

KEY: Final = ApiKey.SHARE_GROUP_DESCRIBE
"""Kafka's number and name for something that is not served here."""


# 1. The declaration of both messages.


@message(api=KEY, versions=(0, 1), flexible=1)
class ShareGroupDescribeRequest:
    topics: Sequence[TopicName]
    least: Int32 = since(1, default=0)


@message(api=KEY, versions=(0, 1), flexible=1)
class ShareGroupDescribeResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    partitions: Sequence[Int32]


# 2. The handler, and its row.


def count_partitions(
    broker: BrokerParts, request: ShareGroupDescribeRequest, context: RequestContext
) -> ShareGroupDescribeResponse:
    known = broker.metadata.snapshot.topics
    return ShareGroupDescribeResponse(
        partitions=[max(len(known.get(name, ())), request.least) for name in request.topics]
    )


ROW: Final = Api(count_partitions, [Need(AclOperation.DESCRIBE, ResourceType.TOPIC, over="topics")])


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Does what each of the steps does to its file."""
    messages, handlers = ModuleType("messages"), ModuleType("handlers")
    for cls in (ShareGroupDescribeRequest, ShareGroupDescribeResponse):
        setattr(messages, cls.__name__, cls)
    handlers.__dict__["APIS"] = {KEY: ROW}
    monkeypatch.setitem(sys.modules, "embedkafka.wire.protocol.messages.added", messages)
    monkeypatch.setitem(sys.modules, "embedkafka.broker.apis.added", handlers)
    monkeypatch.setitem(registry._FAMILY_OF, KEY, "added")
    # 3. What is known of it before its family is loaded.
    monkeypatch.setitem(api_table.SERVED, KEY, Served(versions=(0, 1), module="added"))
    monkeypatch.setitem(dispatch._SERVED_KEYS, KEY, KEY)
    yield
    for cache in (registry.request_type, registry.response_type, api_table.load_api):
        cache.cache_clear()


def connect(kafka: EmbeddedKafka) -> RawClient:
    host, _, port = kafka.bootstrap_servers.rpartition(":")
    return RawClient(host, int(port))


@pytest.mark.usefixtures("added")
def test_an_api_that_was_added_in_these_steps_is_offered_answered_and_seen() -> None:
    with EmbeddedKafka(topics={"orders": 3}) as kafka, connect(kafka) as raw:
        offered = {each.api_key: each for each in raw.call(ApiVersionsRequest(), 0).api_keys}
        assert (offered[KEY].min_version, offered[KEY].max_version) == (0, 1)
        assert counts(raw, ["orders", "none"], version=0) == [3, 0]
        assert counts(raw, ["orders", "none"], version=1, least=1) == [3, 1]
        (seen,) = kafka.requests(KEY.name, topic="none")[:1]
        assert seen.topics == {"orders", "none"}
        with kafka.faults.error(KEY.name, "TOPIC_AUTHORIZATION_FAILED", topic="orders") as fault:
            answer = raw.call(ShareGroupDescribeRequest(topics=["orders"]), 0)
            assert answer.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
            assert counts(raw, ["none"], version=0) == [0]
            assert fault.hits == 1


@pytest.mark.usefixtures("added")
def test_the_refusal_of_an_api_follows_from_its_declaration() -> None:
    request = ShareGroupDescribeRequest(topics=["orders"])
    answer: Any = refusal(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, 0)
    assert answer == ShareGroupDescribeResponse(
        error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, partitions=[]
    )


def test_the_steps_name_the_files_that_this_test_stands_for() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    _, _, section = text.partition("## Adding an API")
    steps, _, _ = section.partition("\n## ")
    assert set(re.findall(r"embedkafka/[\w/.<>]+", steps)) == {
        "embedkafka/wire/protocol/messages/<family>.py",
        "embedkafka/broker/apis/<family>.py",
        "embedkafka/broker/api_table.py",
    }


def counts(raw: RawClient, topics: Sequence[str], *, version: int, least: int = 0) -> list[int]:
    answer = raw.call(ShareGroupDescribeRequest(topics=topics, least=least), version)
    assert answer.error_code == ErrorCode.NONE
    return list(answer.partitions)
