"""SASL requests that reach the handlers, and the SCRAM credentials of users.

Authentication itself takes place before a request is dispatched (`security.sasl_authenticator`).
"""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping
from typing import TYPE_CHECKING, Final, TypeVar

from embedkafka.broker.api_table import REASON, Api, Need
from embedkafka.security.acl.operations import AclOperation, ResourceType
from embedkafka.security.credentials import ScramCredentials
from embedkafka.security.sasl.scram_credentials import (
    MAX_ITERATIONS,
    MECHANISM_NUMBERS,
    MIN_ITERATIONS,
    derive,
)
from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.wire.protocol.messages.configs import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from embedkafka.wire.protocol.messages.security import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

if TYPE_CHECKING:
    from embedkafka.broker.dispatch import RequestContext
    from embedkafka.broker.parts import BrokerParts

_NUMBERS: Final = {mechanism: number for number, mechanism in MECHANISM_NUMBERS.items()}
_TOO_LATE: Final = "SaslAuthenticate request received after successful authentication"

Change = TypeVar(
    "Change",
    AlterUserScramCredentialsRequest.Deletion,
    AlterUserScramCredentialsRequest.Upsertion,
)


def sasl_handshake(
    broker: "BrokerParts", request: SaslHandshakeRequest, context: "RequestContext"
) -> SaslHandshakeResponse:
    """Refuses (ILLEGAL_SASL_STATE): the client has authenticated, or need not."""
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[])


def sasl_authenticate(
    broker: "BrokerParts", request: SaslAuthenticateRequest, context: "RequestContext"
) -> SaslAuthenticateResponse:
    """Refuses (ILLEGAL_SASL_STATE): the client has authenticated, or need not."""
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=_TOO_LATE, auth_bytes=b""
    )


def describe_user_scram_credentials(
    broker: "BrokerParts", request: DescribeUserScramCredentialsRequest, context: "RequestContext"
) -> DescribeUserScramCredentialsResponse:
    """Mechanisms and iterations of the given users, or of all with credentials."""
    credentials = ScramCredentials(broker.zk)
    asked = [user.name for user in request.users or ()] or credentials.users()
    return DescribeUserScramCredentialsResponse(
        error_message="",
        results=[_described(credentials, name, count) for name, count in Counter(asked).items()],
    )


def _described(
    credentials: ScramCredentials, user: str, count: int
) -> DescribeUserScramCredentialsResponse.User:
    _User = DescribeUserScramCredentialsResponse.User
    if count > 1:
        message = "Cannot describe SCRAM credentials for the same user twice in a single request: "
        return _User(
            user=user,
            error_code=ErrorCode.DUPLICATE_RESOURCE,
            error_message=message + user,
            credential_infos=[],
        )
    found = [
        _User.Credential(mechanism=_NUMBERS[mechanism], iterations=credential.iterations)
        for mechanism, credential in credentials.mechanisms(user)
    ]
    if not found:
        return _User(
            user=user,
            error_code=ErrorCode.RESOURCE_NOT_FOUND,
            error_message=f"Attempt to describe a user credential that does not exist: {user}",
            credential_infos=[],
        )
    return _User(user=user, error_message="", credential_infos=found)


def alter_user_scram_credentials(
    broker: "BrokerParts", request: AlterUserScramCredentialsRequest, context: "RequestContext"
) -> AlterUserScramCredentialsResponse:
    """Sets or deletes credentials; the password cannot be recovered from what is stored.

    Behaviour: a user may appear once. Each succeeds or fails alone.
    """
    credentials = ScramCredentials(broker.zk)

    def check_deletion(deletion: AlterUserScramCredentialsRequest.Deletion) -> None:
        if _mechanism(deletion) not in dict(credentials.mechanisms(deletion.name)):
            raise ApiError(
                ErrorCode.RESOURCE_NOT_FOUND,
                "Attempt to delete a user credential that does not exist",
            )

    def check_upsertion(upsertion: AlterUserScramCredentialsRequest.Upsertion) -> None:
        _mechanism(upsertion)
        _check_iterations(upsertion.iterations)

    refused: dict[str, ApiError] = {}
    deletions = _accepted(request.deletions, check_deletion, refused, others=())
    upsertions = _accepted(request.upsertions, check_upsertion, refused, others=deletions)
    for deletion in deletions.values():
        if deletion.name not in refused:
            credentials.delete(deletion.name, _mechanism(deletion))
    for upsertion in upsertions.values():
        credentials.set(
            upsertion.name,
            _mechanism(upsertion),
            derive(
                _mechanism(upsertion),
                bytes(upsertion.salted_password),
                salt=bytes(upsertion.salt),
                iterations=upsertion.iterations,
            ),
        )
    names = [deletion.name for deletion in request.deletions]
    names += [upsertion.name for upsertion in request.upsertions]
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResponse.User(
                user=name,
                error_code=refused[name].code if name in refused else ErrorCode.NONE,
                error_message=refused[name].message if name in refused else None,
            )
            for name in dict.fromkeys(names)
        ]
    )


def _accepted(
    changes: Iterable[Change],
    check: Callable[[Change], None],
    refused: dict[str, ApiError],
    *,
    others: Container[str],
) -> dict[str, Change]:
    """Changes by user; the first reason to refuse one, or a second change, is for all of them."""
    accepted: dict[str, Change] = {}
    for change in changes:
        if change.name in refused:
            continue
        try:
            if change.name in accepted or change.name in others:
                raise ApiError(
                    ErrorCode.DUPLICATE_RESOURCE,
                    "A user credential cannot be altered twice in the same request",
                )
            check(change)
        except ApiError as error:
            refused[change.name] = error
            accepted.pop(change.name, None)
        else:
            accepted[change.name] = change
    return accepted


def _mechanism(change: Change) -> str:
    if not change.name:
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if change.mechanism not in MECHANISM_NUMBERS:
        raise ApiError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    return MECHANISM_NUMBERS[change.mechanism]


def _check_iterations(iterations: int) -> None:
    if iterations < MIN_ITERATIONS:
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if iterations > MAX_ITERATIONS:
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")


APIS: Final[Mapping[ApiKey, Api]] = {
    ApiKey.SASL_HANDSHAKE: Api(sasl_handshake),
    ApiKey.SASL_AUTHENTICATE: Api(sasl_authenticate),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: Api(
        describe_user_scram_credentials, [Need(AclOperation.DESCRIBE, ResourceType.CLUSTER)]
    ),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Api(
        alter_user_scram_credentials,
        [Need(AclOperation.ALTER, ResourceType.CLUSTER, says=REASON)],
    ),
}
