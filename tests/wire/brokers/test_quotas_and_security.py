"""Client quotas, SCRAM credentials, and the answers of a cluster without security."""

from collections.abc import Callable
from typing import Any

from embedkafka.wire.protocol.errors import ErrorCode
from embedkafka.wire.protocol.messages.configs import (
    AlterClientQuotasRequest,
    AlterUserScramCredentialsRequest,
    DescribeClientQuotasRequest,
    DescribeUserScramCredentialsRequest,
)
from tests.wire.clients import eventually
from tests.wire.raw_client import RawClient

Unique = Callable[[str], str]
EXACT = 0
SCRAM_SHA_256 = 1


def alter_quota(
    raw: RawClient, user: str, key: str, value: float | None, *, validate_only: bool = False
) -> ErrorCode:
    entity = AlterClientQuotasRequest.Entry.Entity(entity_type="user", entity_name=user)
    change = AlterClientQuotasRequest.Entry.Op(key=key, value=value or 0.0, remove=value is None)
    request = AlterClientQuotasRequest(
        entries=[AlterClientQuotasRequest.Entry(entity=[entity], ops=[change])],
        validate_only=validate_only,
    )
    (entry,) = raw.call(request).entries
    return ErrorCode(entry.error_code)


def quotas(raw: RawClient, user: str) -> dict[str, float]:
    wanted = DescribeClientQuotasRequest.Component(entity_type="user", match_type=EXACT, match=user)
    answer = raw.call(DescribeClientQuotasRequest(components=[wanted], strict=True))
    assert answer.error_code == ErrorCode.NONE
    return {value.key: value.value for entry in answer.entries for value in entry.values}


def test_a_quota_is_set_told_and_removed(raw: RawClient, unique: Unique) -> None:
    user, key = unique("user"), "producer_byte_rate"
    assert alter_quota(raw, user, key, 1_000_000.0) == ErrorCode.NONE
    eventually(lambda: quotas(raw, user) == {key: 1_000_000.0}, "the quota is set")
    assert alter_quota(raw, user, key, None) == ErrorCode.NONE
    eventually(lambda: quotas(raw, user) == {}, "the quota is gone")


def test_a_trial_sets_no_quota_and_an_unknown_one_is_refused(
    raw: RawClient, unique: Unique
) -> None:
    user = unique("user")
    trial = alter_quota(raw, user, "producer_byte_rate", 1000.0, validate_only=True)
    unknown = alter_quota(raw, user, "no_such_rate", 1000.0)
    assert (trial, unknown) == (ErrorCode.NONE, ErrorCode.INVALID_REQUEST)
    assert quotas(raw, user) == {}


def test_of_two_entries_for_one_user_the_first_counts_although_it_is_an_error(
    raw: RawClient, unique: Unique
) -> None:
    user = unique("user")
    entity = AlterClientQuotasRequest.Entry.Entity(entity_type="user", entity_name=user)

    def entry(key: str, value: float) -> AlterClientQuotasRequest.Entry:
        op = AlterClientQuotasRequest.Entry.Op(key=key, value=value, remove=False)
        return AlterClientQuotasRequest.Entry(entity=[entity], ops=[op])

    entries = [entry("producer_byte_rate", 1e6), entry("consumer_byte_rate", 2e6)]
    (answer,) = raw.call(AlterClientQuotasRequest(entries=entries, validate_only=False)).entries
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    eventually(lambda: quotas(raw, user) == {"producer_byte_rate": 1e6}, "the first counts")
    alter_quota(raw, user, "producer_byte_rate", None)


def scram_users(raw: RawClient, user: str) -> Any:
    wanted = DescribeUserScramCredentialsRequest.User(name=user)
    (answer,) = raw.call(DescribeUserScramCredentialsRequest(users=[wanted])).results
    return answer


def test_a_scram_credential_is_set_told_and_deleted(raw: RawClient, unique: Unique) -> None:
    user = unique("user")
    upsertion = AlterUserScramCredentialsRequest.Upsertion(
        name=user, mechanism=SCRAM_SHA_256, iterations=4096, salt=b"salt", salted_password=b"x" * 32
    )
    request = AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion])
    assert raw.call(request).results[0].error_code == ErrorCode.NONE
    told = eventually(
        lambda: next((u for u in [scram_users(raw, user)] if not u.error_code), None), "it is set"
    )
    assert [(c.mechanism, c.iterations) for c in told.credential_infos] == [(SCRAM_SHA_256, 4096)]
    assert told.error_message == ""
    deletion = AlterUserScramCredentialsRequest.Deletion(name=user, mechanism=SCRAM_SHA_256)
    request = AlterUserScramCredentialsRequest(deletions=[deletion], upsertions=[])
    assert raw.call(request).results[0].error_code == ErrorCode.NONE
    eventually(
        lambda: scram_users(raw, user).error_code == ErrorCode.RESOURCE_NOT_FOUND, "it is gone"
    )
    assert raw.call(request).results[0].error_code == ErrorCode.RESOURCE_NOT_FOUND


def test_a_description_of_credentials_has_an_empty_message(raw: RawClient) -> None:
    answer = raw.call(DescribeUserScramCredentialsRequest(users=None))
    assert (answer.error_code, answer.error_message) == (ErrorCode.NONE, "")
