"""What a client without rights gets, API by API, and what is left out of its answers.

A test grants the anonymous client exactly the rights of one API. The same bodies run on Apache
Kafka, with its StandardAuthorizer.
"""

import itertools
import uuid
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import pytest

from embedkafka.broker.api_table import SERVED, load_api
from embedkafka.broker.authorization.checks import Checks
from embedkafka.broker.authorization.needs import permissions
from embedkafka.runtime.addresses import parse_address
from embedkafka.security.acl.acls import Acl, PatternType
from embedkafka.security.acl.operations import AclOperation, ResourceType
from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.message import schema_of
from embedkafka.wire.protocol.messages import consumer_groups as cg
from embedkafka.wire.protocol.messages import core, security, topics
from embedkafka.wire.protocol.messages import transactions as t
from embedkafka.wire.protocol.wire_types import ZERO_UUID
from tests.wire.clients import eventually
from tests.wire.conftest import SHARED_CONFIG
from tests.wire.probes import (
    ANY_ACL,
    GROUP,
    HIDDEN,
    NO_CLUSTER,
    NO_GROUP,
    NO_TOPIC,
    PROBES,
    REFUSALS,
    TOPIC,
    TXN,
    allow,
    codes,
    commit,
    fetched,
    in_transaction,
    produced,
)
from tests.wire.raw_client import RawClient
from tests.wire.secured import ANYONE, EVERYTHING, Secured, creation, secured_cluster

_serial = itertools.count(1)


ON_EITHER_KIND = ("secured",)


@pytest.fixture(scope="module", autouse=True)
def only_what_a_row_lists_is_asked() -> Iterator[None]:
    """Makes a request fail that is asked for more than the documentation says."""
    ask = Checks.may

    def may(
        self: Checks, operation: AclOperation, kind: ResourceType, name: str, *, quiet: bool = False
    ) -> bool:
        needs = load_api(self.context.api_key).needs
        listed = {(op, resource) for need in needs for op, resource, _ in permissions(need)}
        assert (operation, kind) in listed, f"{operation!r} on {kind!r} is not in the table"
        return ask(self, operation, kind, name, quiet=quiet)

    Checks.may = may
    yield
    Checks.may = ask


@pytest.fixture(scope="module")
def secured(request: pytest.FixtureRequest) -> Iterator[Secured]:
    """Two topics with a record each, a group with an offset in both, an open transaction."""
    with secured_cluster(request.param, {**SHARED_CONFIG, "auto.create.topics.enable": True}) as up:
        up.grant(*EVERYTHING)
        with up.connect() as client:
            _prepare(client)
        yield up
        up.grant(*EVERYTHING)  # the brokers of a plaintext cluster are anonymous too


@pytest.fixture
def raw(secured: Secured) -> Iterator[RawClient]:
    with secured.connect() as client:
        yield client


def _prepare(raw: RawClient) -> None:
    eventually(raw.gives_producer_ids, "the broker gives producer ids")
    for name in (TOPIC, HIDDEN):
        wanted = topics.CreateTopicsRequest.Topic(
            name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[]
        )
        raw.call(topics.CreateTopicsRequest(topics=[wanted], timeout_ms=30_000))
        eventually(partial(raw.knows_leaders, name, 1), f"{name} is led")
        eventually(partial(_takes_records, raw, name), f"{name} takes records")
    for kind, key in ((0, GROUP), (1, TXN)):
        eventually(partial(raw.knows_coordinator, key, kind=kind), key)
    eventually(lambda: codes(raw.call(commit(TOPIC, HIDDEN), 8)) == set(), "offsets are committed")
    eventually(lambda: _begun(raw), "a transaction is open")


def _takes_records(raw: RawClient, topic: str) -> bool:
    return not codes(raw.call(produced(topic), 9))


def _begun(raw: RawClient) -> bool:
    answer = raw.call(
        t.InitProducerIdRequest(transactional_id=TXN, transaction_timeout_ms=60_000), 4
    )
    if answer.error_code:
        return False
    for name in (TOPIC, HIDDEN):
        added = raw.call(in_transaction(name, answer.producer_id, answer.producer_epoch), 3)
        if codes(added):
            return False
    return True


ELSEWHERE: Final = {
    ApiKey.LIST_GROUPS: "the recorded tour of permissions: what is not visible is left out",
    ApiKey.LIST_TRANSACTIONS: "likewise",
    ApiKey.DESCRIBE_CLUSTER: "likewise",
    ApiKey.CREATE_DELEGATION_TOKEN: "tokens need a login",
    ApiKey.RENEW_DELEGATION_TOKEN: "tokens need a login",
    ApiKey.EXPIRE_DELEGATION_TOKEN: "tokens need a login",
    ApiKey.DESCRIBE_DELEGATION_TOKEN: "tokens need a login",
}


def test_every_api_that_is_not_free_is_probed() -> None:
    guarded = {api for api in SERVED if load_api(api).needs}
    of_brokers = {api for api in guarded if not SERVED[api].for_clients}
    assert set(PROBES) | of_brokers | (set(ELSEWHERE) & guarded) == guarded


@pytest.mark.parametrize("api", PROBES, ids=lambda api: api.name)
def test_an_api_is_refused_without_its_rights(
    secured: Secured, raw: RawClient, api: ApiKey
) -> None:
    probe = PROBES[api]
    secured.grant()
    assert codes(raw.call(probe.request, probe.version)) == probe.refused
    secured.grant(*probe.acls)
    assert not codes(raw.call(probe.request, probe.version)) & REFUSALS


@pytest.mark.parametrize(
    ("acls", "api", "expected"),
    [
        ([allow("READ", group=GROUP)], ApiKey.OFFSET_COMMIT, {NO_TOPIC}),
        ([allow("DELETE", group="no-such-group")], ApiKey.OFFSET_DELETE, None),
        ([allow("WRITE", transactional_id=TXN)], ApiKey.ADD_PARTITIONS_TO_TXN, {NO_TOPIC}),
        ([allow("WRITE", transactional_id=TXN)], ApiKey.ADD_OFFSETS_TO_TXN, {NO_GROUP}),
        ([allow("WRITE", transactional_id=TXN)], ApiKey.TXN_OFFSET_COMMIT, {NO_GROUP}),
        (
            [allow("WRITE", transactional_id=TXN), allow("READ", group=GROUP)],
            ApiKey.TXN_OFFSET_COMMIT,
            {NO_TOPIC},
        ),
        ([allow("IDEMPOTENT_WRITE", cluster=True)], ApiKey.INIT_PRODUCER_ID, set()),
        ([allow("CREATE", cluster=True)], ApiKey.CREATE_TOPICS, None),
        ([allow("DESCRIBE", cluster=True)], ApiKey.WRITE_TXN_MARKERS, {NO_CLUSTER}),
        ([allow("CLUSTER_ACTION", cluster=True)], ApiKey.WRITE_TXN_MARKERS, None),
        ([allow("CLUSTER_ACTION", cluster=True)], ApiKey.OFFSET_FOR_LEADER_EPOCH, set()),
    ],
)
def test_half_of_the_rights(
    secured: Secured, raw: RawClient, acls: list[Acl], api: ApiKey, expected: set[int] | None
) -> None:
    """None: anything but a refusal."""
    probe = PROBES[api]
    secured.grant(*acls)
    answered = codes(raw.call(probe.request, probe.version))
    if expected is None:
        assert not answered & (REFUSALS - {NO_TOPIC})
    else:
        assert answered == expected


def names(secured: Secured, raw: RawClient) -> set[str | None]:
    return {topic.name for topic in raw.call(core.MetadataRequest(topics=None), 9).topics}


def test_a_topic_is_created_on_demand_only_for_those_who_may(
    secured: Secured, raw: RawClient
) -> None:
    name = f"on-demand-{next(_serial)}"
    asked = core.MetadataRequest(topics=[core.MetadataRequest.Topic(name=name)])
    secured.grant(allow("DESCRIBE", topic=name))
    assert codes(raw.call(asked, 9)) == {NO_TOPIC}
    for right in (allow("CREATE", topic=name), allow("CREATE", cluster=True)):
        secured.grant(allow("DESCRIBE", topic=name), right)
        assert NO_TOPIC not in codes(raw.call(asked, 9))
    eventually(lambda: raw.knows_leaders(name, 1), "the topic is created")


def test_the_settings_of_a_new_topic_are_shown_to_those_who_may_describe_them(
    secured: Secured, raw: RawClient
) -> None:
    def create(*more: Acl) -> topics.CreateTopicsResponse.Topic:
        name = f"new-{next(_serial)}"
        secured.grant(allow("CREATE", topic=name), *more)
        wanted = topics.CreateTopicsRequest.Topic(
            name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[]
        )
        (created,) = raw.call(topics.CreateTopicsRequest(topics=[wanted]), 7).topics
        assert created.error_code == ErrorCode.NONE
        return created

    hidden = create()
    assert (hidden.topic_config_error_code, hidden.configs) == (NO_TOPIC, [])
    assert (hidden.num_partitions, hidden.replication_factor) == (-1, -1)
    shown = create(allow("DESCRIBE_CONFIGS", topic="new-", prefixed=True))
    assert (shown.topic_config_error_code, shown.num_partitions) == (0, 1)
    assert shown.configs


def test_a_deletion_tells_only_those_who_may_describe_what_does_not_exist(
    secured: Secured, raw: RawClient
) -> None:
    secured.grant(*EVERYTHING)
    asked = [core.MetadataRequest.Topic(name=HIDDEN)]
    (known,) = raw.call(core.MetadataRequest(topics=asked), 12).topics

    def delete(name: str | None, topic_id: uuid.UUID = ZERO_UUID) -> tuple[int, str | None]:
        wanted = topics.DeleteTopicsRequest.Topic(name=name, topic_id=topic_id)
        request = topics.DeleteTopicsRequest(topics=[wanted], timeout_ms=5000)
        (answer,) = raw.call(request, 6).responses
        return answer.error_code, answer.name

    secured.grant()
    assert delete("no-such-topic") == (NO_TOPIC, "no-such-topic")
    assert delete(None, known.topic_id) == (NO_TOPIC, None)
    secured.grant(allow("DESCRIBE", topic="*"))
    assert delete("no-such-topic")[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert delete(HIDDEN) == (NO_TOPIC, HIDDEN)
    assert delete(None, known.topic_id) == (NO_TOPIC, HIDDEN)


def test_a_regular_expression_finds_visible_topics_only(secured: Secured, raw: RawClient) -> None:
    group, member = f"by-pattern-{next(_serial)}", str(uuid.uuid4())
    secured.grant(allow("READ", group=group), allow("DESCRIBE", topic=TOPIC))
    asked = core.MetadataRequest(topics=[core.MetadataRequest.Topic(name=TOPIC)])
    visible = raw.call(asked, 12).topics[0].topic_id
    epoch = 0

    def assigned() -> set[uuid.UUID]:
        nonlocal epoch
        answer = raw.call(
            cg.ConsumerGroupHeartbeatRequest(
                group_id=group,
                member_id=member,
                member_epoch=epoch,
                rebalance_timeout_ms=300_000,
                subscribed_topic_regex=f"({TOPIC}|{HIDDEN})",
                server_assignor="uniform",
                topic_partitions=[],
            ),
            1,
        )
        assert answer.error_code == ErrorCode.NONE, answer.error_message
        epoch = answer.member_epoch
        found = answer.assignment.topic_partitions if answer.assignment else ()
        return {one.topic_id for one in found}

    assert eventually(assigned, "the member has topics") == {visible}


def test_a_request_for_two_topics_serves_the_one_that_is_allowed(
    secured: Secured, raw: RawClient
) -> None:
    secured.grant(allow("WRITE", topic=TOPIC))
    both = [*produced(TOPIC).topic_data, *produced(HIDDEN).topic_data]
    request = core.ProduceRequest(acks=1, timeout_ms=5000, topic_data=both)
    answers = {topic.name: topic for topic in raw.call(request, 9).responses}
    assert answers[HIDDEN].partition_responses[0].error_code == NO_TOPIC
    assert answers[TOPIC].partition_responses[0].error_code == ErrorCode.NONE
    assert answers[TOPIC].partition_responses[0].base_offset > 0


def test_a_forbidden_write_without_an_answer_ends_the_connection(
    secured: Secured, raw: RawClient
) -> None:
    secured.grant(allow("DESCRIBE", topic=TOPIC))
    raw.send(produced(TOPIC, acks=0), 9)
    with pytest.raises(ConnectionError):
        raw.receive_frame()


def test_a_fetch_session_loses_a_topic_with_the_right_to_read_it(
    secured: Secured, raw: RawClient
) -> None:
    secured.grant(allow("READ", topic=TOPIC))
    first = raw.call(fetched(TOPIC, session_id=0, session_epoch=0), 11)
    assert codes(first) == set()
    secured.grant()
    next_one = fetched("", session_id=first.session_id, session_epoch=1)
    again = raw.call(next_one, 11)
    assert [p.error_code for topic in again.responses for p in topic.partitions] == [NO_TOPIC]
    secured.grant(allow("READ", topic=TOPIC))
    next_one = fetched("", session_id=first.session_id, session_epoch=2)
    assert codes(raw.call(next_one, 11)) == set()


def test_a_denial_wins_over_permissions(secured: Secured, raw: RawClient) -> None:
    secured.grant(*EVERYTHING, Acl.deny(ANYONE, "WRITE", topic=TOPIC))
    assert codes(raw.call(produced(TOPIC), 9)) == {NO_TOPIC}
    assert codes(raw.call(produced(HIDDEN), 9)) == set()


def may_write(raw: RawClient, topic: str = TOPIC) -> bool:
    return NO_TOPIC not in codes(raw.call(produced(topic), 9))


@pytest.mark.parametrize(
    ("acls", "allowed"),
    [
        ([allow("WRITE", topic=TOPIC)], True),
        ([allow("WRITE", topic="*")], True),
        ([allow("WRITE", topic="vis", prefixed=True)], True),
        ([allow("WRITE", topic="vis")], False),
        ([allow("WRITE", topic="*", prefixed=True)], False),
        ([allow("WRITE", topic="hid", prefixed=True)], False),
        ([allow("ALL", topic=TOPIC)], True),
        ([allow("READ", topic=TOPIC)], False),
        ([Acl.allow("*", "WRITE", topic=TOPIC)], True),
        ([Acl.allow("somebody", "WRITE", topic=TOPIC)], False),
        ([allow("WRITE", topic=TOPIC), Acl.deny("*", "WRITE", topic="*")], False),
        ([allow("WRITE", topic=TOPIC), Acl.deny(ANYONE, "ALL", topic="vis", prefixed=True)], False),
        ([allow("WRITE", topic=TOPIC), Acl.deny(ANYONE, "READ", topic=TOPIC)], True),
        ([allow("WRITE", topic=TOPIC), Acl.deny(ANYONE, "DESCRIBE", topic=TOPIC)], True),
        ([allow("WRITE", topic=TOPIC), Acl.deny("somebody", "WRITE", topic=TOPIC)], True),
        ([allow("WRITE", topic=TOPIC), Acl.deny(ANYONE, "WRITE", topic=HIDDEN)], True),
        ([allow("WRITE", topic=TOPIC, host="127.0.0.1")], True),
        ([allow("WRITE", topic=TOPIC, host="127.0.0.2")], False),
        ([allow("WRITE", topic=TOPIC, host="127.0.0.0/8")], False),
        (
            [allow("WRITE", topic=TOPIC), Acl.deny("*", "WRITE", topic=TOPIC, host="127.0.0.1")],
            False,
        ),
        (
            [allow("WRITE", topic=TOPIC), Acl.deny("*", "WRITE", topic=TOPIC, host="127.0.0.2")],
            True,
        ),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, list) else None,
)
def test_patterns_principals_hosts_and_denials(
    secured: Secured, raw: RawClient, acls: list[Acl], allowed: bool
) -> None:
    secured.grant(*acls)
    assert may_write(raw) is allowed


@pytest.mark.parametrize(
    ("right", "implies"),
    [
        ("READ", True),
        ("WRITE", True),
        ("DELETE", True),
        ("ALTER", True),
        ("CREATE", False),
        ("ALTER_CONFIGS", False),
        ("DESCRIBE_CONFIGS", False),
    ],
)
def test_some_rights_imply_the_right_to_describe(
    secured: Secured, raw: RawClient, right: str, implies: bool
) -> None:
    secured.grant(allow(right, topic=TOPIC))
    assert names(secured, raw) == ({TOPIC} if implies else set())
    secured.grant(allow(right, topic=TOPIC), Acl.deny(ANYONE, "DESCRIBE", topic=TOPIC))
    assert names(secured, raw) == set()


def test_a_client_from_elsewhere_has_the_rights_of_its_host(secured: Secured) -> None:
    secured.grant(allow("WRITE", topic=TOPIC, host="127.0.0.2"))
    address = parse_address(secured.bootstrap_servers)
    with RawClient(*address, from_host="127.0.0.2") as elsewhere, secured.connect() as here:
        assert may_write(elsewhere)
        assert not may_write(here)


def test_the_clusters_operations_are_for_those_who_may_describe_it(
    secured: Secured, raw: RawClient
) -> None:
    secured.grant(allow("CREATE", cluster=True))
    request = core.DescribeClusterRequest(include_cluster_authorized_operations=True)
    assert raw.call(request, 0).cluster_authorized_operations == 0


def test_acls_are_created_described_and_deleted(secured: Secured, raw: RawClient) -> None:
    admin = allow("ALTER", cluster=True)
    secured.grant(admin)
    literal = Acl.allow("job", "READ", topic="orders")
    prefixed = Acl.deny("job", "WRITE", topic="ord", prefixed=True, host="10.0.0.1")
    created = raw.call(
        security.CreateAclsRequest(creations=[creation(literal), creation(prefixed)]), 3
    )
    assert codes(created) == set()

    def described(name: str | None, pattern: PatternType) -> set[tuple[int, str, int]]:
        asked = {**ANY_ACL, "resource_name_filter": name, "pattern_type_filter": pattern}
        answer = raw.call(security.DescribeAclsRequest(**{**asked, "resource_type_filter": 2}), 3)
        return {
            (resource.pattern_type, resource.resource_name, acl.permission_type)
            for resource in answer.resources
            for acl in resource.acls
        }

    one, other = (3, "orders", 3), (4, "ord", 2)
    eventually(lambda: described("orders", PatternType.MATCH) == {one, other}, "both match")
    assert described("orders", PatternType.ANY) == {one}
    assert described(None, PatternType.PREFIXED) == {other}
    wanted = {**ANY_ACL, "resource_name_filter": "orders", "pattern_type_filter": 2}
    deleted = raw.call(
        security.DeleteAclsRequest(filters=[security.DeleteAclsRequest.Filter(**wanted)] * 2), 3
    )
    assert codes(deleted) == set()
    assert [len(result.matching_acls) for result in deleted.filter_results] == [2, 2]
    eventually(lambda: described(None, PatternType.ANY) == set(), "they are gone")


def created(raw: RawClient, **wrong: Any) -> list[int]:  # Any: fields of a creation
    """The results of an ACL with these fields, and of a good one."""
    good = creation(Acl.allow("job", "READ", topic="orders"))
    fields = {field.name: getattr(good, field.name) for field in schema_of(type(good)).fields}
    bad = security.CreateAclsRequest.Creation(**{**fields, **wrong})
    answer = raw.call(security.CreateAclsRequest(creations=[bad, good]), 3)
    return [result.error_code for result in answer.results]


@pytest.mark.parametrize(
    "wrong",
    [
        {"resource_type": 4, "resource_name": "other-cluster"},
        {"resource_name": ""},
        {"resource_type": 99},
        {"operation": 99},
    ],
    ids=str,
)
def test_an_acl_that_cannot_be_is_refused(
    secured: Secured, raw: RawClient, wrong: dict[str, Any]
) -> None:
    secured.grant(allow("ALTER", cluster=True))
    assert created(raw, **wrong) == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE]


@pytest.mark.parametrize(
    "wrong",
    [
        {"resource_type": 1},
        {"resource_pattern_type": 1},
        {"resource_pattern_type": 2},
        {"operation": 1},
        {"permission_type": 1},
    ],
    ids=str,
)
def test_an_acl_like_a_filter_fails_the_others_too(
    secured: Secured, raw: RawClient, wrong: dict[str, Any]
) -> None:
    secured.grant(allow("ALTER", cluster=True))
    assert created(raw, **wrong) == [ErrorCode.UNKNOWN_SERVER_ERROR] * 2


@pytest.mark.parametrize("field", ["resource_type", "operation"])
def test_an_acl_of_an_unknown_kind_ends_the_connection(
    secured: Secured, raw: RawClient, field: str
) -> None:
    secured.grant(allow("ALTER", cluster=True))
    with pytest.raises(ConnectionError):
        created(raw, **{field: 0})
