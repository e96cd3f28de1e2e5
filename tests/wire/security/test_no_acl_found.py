"""`allow.everyone.if.no.acl.found`: what no ACL mentions is free to everyone."""

from collections.abc import Iterator

import pytest

from embedkafka.security.acl.acls import Acl
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages import core
from tests.wire.conftest import SHARED_CONFIG
from tests.wire.secured import ANYONE, Secured, secured_cluster

NO_TOPIC = ErrorCode.TOPIC_AUTHORIZATION_FAILED
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


ON_EITHER_KIND = ("secured",)


@pytest.fixture(scope="module")
def secured(request: pytest.FixtureRequest) -> Iterator[Secured]:
    config = {
        **SHARED_CONFIG,
        "auto.create.topics.enable": False,
        "allow.everyone.if.no.acl.found": True,
    }
    with secured_cluster(request.param, config) as up:
        yield up
        up.grant()


@pytest.mark.parametrize(
    ("acls", "expected"),
    [
        ((), UNKNOWN),
        ((Acl.allow("somebody", "READ", topic="other"),), UNKNOWN),
        ((Acl.allow("somebody", "READ", group="orders"),), UNKNOWN),
        ((Acl.allow("somebody", "READ", topic="orders"),), NO_TOPIC),
        ((Acl.allow("somebody", "READ", topic="ord", prefixed=True),), NO_TOPIC),
        ((Acl.allow("somebody", "READ", topic="*"),), NO_TOPIC),
        ((Acl.allow(ANYONE, "READ", topic="orders"),), UNKNOWN),
        ((Acl.deny("somebody", "READ", topic="orders"),), NO_TOPIC),
        ((Acl.deny(ANYONE, "DESCRIBE", topic="orders"),), NO_TOPIC),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, tuple) else value.name,
)
def test_an_acl_takes_the_resource_from_everyone_else(
    secured: Secured, acls: tuple[Acl, ...], expected: ErrorCode
) -> None:
    secured.grant(*acls)
    wanted = [core.MetadataRequest.Topic(name="orders")]
    request = core.MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
    with secured.connect() as raw:
        (answer,) = raw.call(request, 9).topics
    assert answer.error_code == expected
