"""Client quotas and SCRAM credentials: stored, as settings of users, and described."""

import base64
import hashlib
import hmac
from typing import TYPE_CHECKING, Final

from embedkafka.protocol.errors import ApiError, ErrorCode
from embedkafka.protocol.messages.configs import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from embedkafka.server.quota_store import QuotaStore, matches
from embedkafka.zk.payloads import desanitize, sanitize

if TYPE_CHECKING:
    from embedkafka.server.broker import Broker
    from embedkafka.server.dispatch import RequestContext

_MECHANISMS: Final = {1: ("SCRAM-SHA-256", "sha256"), 2: ("SCRAM-SHA-512", "sha512")}
_MIN_ITERATIONS, _MAX_ITERATIONS = 4096, 16_384


def describe_client_quotas(
    broker: "Broker", request: DescribeClientQuotasRequest, context: "RequestContext"
) -> DescribeClientQuotasResponse:
    """Quotas of the entities that match every component."""
    _Entry = DescribeClientQuotasResponse.Entry
    wanted = [(part.entity_type, part.match_type, part.match) for part in request.components]
    return DescribeClientQuotasResponse(
        entries=[
            _Entry(
                entity=[
                    _Entry.Entity(entity_type=kind, entity_name=name)
                    for kind, name in entity.items()
                ],
                values=[_Entry.Value(key=key, value=value) for key, value in quotas.items()],
            )
            for entity, quotas in QuotaStore(broker.zk).all()
            if matches(entity, wanted, strict=request.strict)
        ]
    )


def alter_client_quotas(
    broker: "Broker", request: AlterClientQuotasRequest, context: "RequestContext"
) -> AlterClientQuotasResponse:
    """Sets or removes quotas; each entity succeeds or fails alone.

    Left out: enforcement. Quotas are stored and described, but throttle no client.
    """
    store = QuotaStore(broker.zk)
    _Entry = AlterClientQuotasResponse.Entry
    entries = []
    for entry in request.entries:
        code, message = ErrorCode.NONE, None
        try:
            store.alter(
                {part.entity_type: part.entity_name for part in entry.entity},
                {op.key: None if op.remove else op.value for op in entry.ops},
                validate_only=request.validate_only,
            )
        except ApiError as error:
            code, message = error.code, error.message
        entity = [
            _Entry.Entity(entity_type=part.entity_type, entity_name=part.entity_name)
            for part in entry.entity
        ]
        entries.append(_Entry(error_code=code, error_message=message, entity=entity))
    return AlterClientQuotasResponse(entries=entries)


def describe_user_scram_credentials(
    broker: "Broker", request: DescribeUserScramCredentialsRequest, context: "RequestContext"
) -> DescribeUserScramCredentialsResponse:
    """Mechanisms and iterations of the given users, or of all with credentials."""
    _User = DescribeUserScramCredentialsResponse.User
    asked = [user.name for user in request.users or ()]
    names = asked or [desanitize(name) for name in broker.zk.configured_entities("users")]
    results = []
    for name in dict.fromkeys(names):
        credentials = [
            _User.Credential(mechanism=number, iterations=_iterations(text))
            for number, (mechanism, _) in _MECHANISMS.items()
            if (text := broker.zk.config("users", sanitize(name)).get(mechanism))
        ]
        if names.count(name) > 1:
            code, message = ErrorCode.DUPLICATE_RESOURCE, f"Cannot describe user twice: {name}"
        elif not credentials and asked:
            code, message = ErrorCode.RESOURCE_NOT_FOUND, f"no credentials of user {name}"
        elif not credentials:
            continue
        else:
            results.append(_User(user=name, credential_infos=credentials))
            continue
        results.append(
            _User(user=name, error_code=code, error_message=message, credential_infos=[])
        )
    return DescribeUserScramCredentialsResponse(results=results)


def alter_user_scram_credentials(
    broker: "Broker", request: AlterUserScramCredentialsRequest, context: "RequestContext"
) -> AlterUserScramCredentialsResponse:
    """Sets or deletes credentials; the password cannot be recovered from what is stored."""
    results: dict[str, AlterUserScramCredentialsResponse.User] = {}
    changes = [(d.name, d.mechanism) for d in request.deletions]
    changes += [(u.name, u.mechanism) for u in request.upsertions]

    def attempt(name: str, mechanism: int, text: str | None) -> None:
        code, message = ErrorCode.NONE, None
        try:
            if changes.count((name, mechanism)) > 1:
                raise ApiError(ErrorCode.DUPLICATE_RESOURCE, f"user {name} appears twice")
            _set_credential(broker, name, mechanism, text)
        except ApiError as error:
            code, message = error.code, error.message
        known = results.get(name)
        if known is None or not known.error_code:
            results[name] = AlterUserScramCredentialsResponse.User(
                user=name, error_code=code, error_message=message
            )

    for deletion in request.deletions:
        attempt(deletion.name, deletion.mechanism, None)
    for upsertion in request.upsertions:
        try:
            text = _credential(upsertion)
        except ApiError as error:
            results[upsertion.name] = AlterUserScramCredentialsResponse.User(
                user=upsertion.name, error_code=error.code, error_message=error.message
            )
            continue
        attempt(upsertion.name, upsertion.mechanism, text)
    return AlterUserScramCredentialsResponse(results=list(results.values()))


def _set_credential(broker: "Broker", name: str, mechanism: int, text: str | None) -> None:
    if mechanism not in _MECHANISMS:
        raise ApiError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, f"mechanism {mechanism} is unknown")
    settings = broker.zk.config("users", sanitize(name))
    key = _MECHANISMS[mechanism][0]
    if text is not None:
        settings[key] = text
    elif settings.pop(key, None) is None:
        raise ApiError(ErrorCode.RESOURCE_NOT_FOUND, f"user {name} has no such credential")
    broker.zk.set_config("users", sanitize(name), settings)


def _credential(upsertion: AlterUserScramCredentialsRequest.Upsertion) -> str:
    """The stored form, as Kafka's: keys derived from the salted password (RFC 5802)."""
    if not upsertion.name:
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if upsertion.mechanism not in _MECHANISMS:
        raise ApiError(
            ErrorCode.UNSUPPORTED_SASL_MECHANISM, f"mechanism {upsertion.mechanism} is unknown"
        )
    if not _MIN_ITERATIONS <= upsertion.iterations <= _MAX_ITERATIONS:
        raise ApiError(
            ErrorCode.UNACCEPTABLE_CREDENTIAL,
            f"iterations must be from {_MIN_ITERATIONS} to {_MAX_ITERATIONS}",
        )
    algorithm = _MECHANISMS[upsertion.mechanism][1]
    client_key = hmac.digest(upsertion.salted_password, b"Client Key", algorithm)
    stored_key = hashlib.new(algorithm, client_key).digest()
    server_key = hmac.digest(upsertion.salted_password, b"Server Key", algorithm)
    parts = (("salt", upsertion.salt), ("stored_key", stored_key), ("server_key", server_key))
    encoded = ",".join(f"{name}={base64.b64encode(data).decode()}" for name, data in parts)
    return f"{encoded},iterations={upsertion.iterations}"


def _iterations(text: str) -> int:
    return int(text.rpartition("iterations=")[2])
