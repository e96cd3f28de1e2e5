"""SASL requests that reach the handlers, and the SCRAM credentials of users.

Authentication itself takes place before a request is dispatched (`security.authentication`).
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, TypeVar

from embedkafka.protocol.errors import ApiError, ErrorCode
from embedkafka.protocol.messages.configs import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from embedkafka.protocol.messages.security import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from embedkafka.security.credentials import ScramCredentials
from embedkafka.security.sasl.scram_credentials import (
    MAX_ITERATIONS,
    MECHANISM_NUMBERS,
    MIN_ITERATIONS,
    derive,
)

if TYPE_CHECKING:
    from embedkafka.server.broker import Broker
    from embedkafka.server.dispatch import RequestContext

_NUMBERS: Final = {mechanism: number for number, mechanism in MECHANISM_NUMBERS.items()}
_TOO_LATE: Final = "SaslAuthenticate request received after successful authentication"

Change = TypeVar(
    "Change",
    AlterUserScramCredentialsRequest.Deletion,
    AlterUserScramCredentialsRequest.Upsertion,
)


def sasl_handshake(
    broker: "Broker", request: SaslHandshakeRequest, context: "RequestContext"
) -> SaslHandshakeResponse:
    """Refuses (ILLEGAL_SASL_STATE): the client has authenticated, or need not."""
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[])


def sasl_authenticate(
    broker: "Broker", request: SaslAuthenticateRequest, context: "RequestContext"
) -> SaslAuthenticateResponse:
    """Refuses (ILLEGAL_SASL_STATE): the client has authenticated, or need not."""
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=_TOO_LATE, auth_bytes=b""
    )


def describe_user_scram_credentials(
    broker: "Broker", request: DescribeUserScramCredentialsRequest, context: "RequestContext"
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
    return _User(user=user, credential_infos=found)


def alter_user_scram_credentials(
    broker: "Broker", request: AlterUserScramCredentialsRequest, context: "RequestContext"
) -> AlterUserScramCredentialsResponse:
    """Sets or deletes credentials; the password cannot be recovered from what is stored.

    Behaviour: a user may appear once. Each succeeds or fails alone.
    """
    credentials = ScramCredentials(broker.zk)
    counts = Counter([one.name for one in request.deletions])
    counts.update(one.name for one in request.upsertions)

    def delete(deletion: AlterUserScramCredentialsRequest.Deletion) -> None:
        if not credentials.delete(deletion.name, _mechanism(deletion)):
            raise ApiError(
                ErrorCode.RESOURCE_NOT_FOUND,
                "Attempt to delete a user credential that does not exist",
            )

    def upsert(upsertion: AlterUserScramCredentialsRequest.Upsertion) -> None:
        mechanism = _mechanism(upsertion)
        _check_iterations(upsertion.iterations)
        credentials.set(
            upsertion.name,
            mechanism,
            derive(
                mechanism,
                bytes(upsertion.salted_password),
                salt=bytes(upsertion.salt),
                iterations=upsertion.iterations,
            ),
        )

    results = {
        **_attempts(request.deletions, delete, counts),
        **_attempts(request.upsertions, upsert, counts),
    }
    return AlterUserScramCredentialsResponse(results=list(results.values()))


def _attempts(
    changes: Iterable[Change], attempt: Callable[[Change], None], counts: Counter[str]
) -> dict[str, AlterUserScramCredentialsResponse.User]:
    results = {}
    for change in changes:
        code, message = ErrorCode.NONE, None
        try:
            if counts[change.name] > 1:
                raise ApiError(
                    ErrorCode.DUPLICATE_RESOURCE,
                    "A user credential cannot be altered twice in the same request",
                )
            attempt(change)
        except ApiError as error:
            code, message = error.code, error.message
        results[change.name] = AlterUserScramCredentialsResponse.User(
            user=change.name, error_code=code, error_message=message
        )
    return results


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
