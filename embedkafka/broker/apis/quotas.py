"""Client quotas: stored, as settings of users, clients and addresses, and described."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from embedkafka.broker.api_table import MEANING, Api, Need
from embedkafka.broker.quota_store import QuotaStore, check_filter, matches
from embedkafka.security.acl.operations import AclOperation, ResourceType
from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.wire.protocol.messages.configs import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

if TYPE_CHECKING:
    from embedkafka.broker.dispatch import RequestContext
    from embedkafka.broker.parts import BrokerParts


def describe_client_quotas(
    broker: "BrokerParts", request: DescribeClientQuotasRequest, context: "RequestContext"
) -> DescribeClientQuotasResponse:
    """Quotas of the entities that match every component."""
    _Entry = DescribeClientQuotasResponse.Entry
    wanted = [(part.entity_type, part.match_type, part.match) for part in request.components]
    try:
        check_filter(wanted)
    except ApiError as error:
        return DescribeClientQuotasResponse(
            error_code=error.code, error_message=error.message, entries=None
        )
    return DescribeClientQuotasResponse(
        error_message="",
        entries=[
            _Entry(
                entity=[
                    _Entry.Entity(entity_type=kind, entity_name=name)
                    for kind, name in sorted(entity.items())
                ],
                values=[
                    _Entry.Value(key=key, value=value) for key, value in sorted(quotas.items())
                ],
            )
            for entity, quotas in QuotaStore(broker.zk).all()
            if matches(entity, wanted, strict=request.strict)
        ],
    )


def alter_client_quotas(
    broker: "BrokerParts", request: AlterClientQuotasRequest, context: "RequestContext"
) -> AlterClientQuotasResponse:
    """Sets or removes quotas; each entity succeeds or fails alone.

    Behaviour: every broker throttles by its own share of what a client does (`throttling`). Of an
    entity that appears twice, the first entry counts, although the answer is an error.
    """
    store = QuotaStore(broker.zk)
    _Entry = AlterClientQuotasResponse.Entry
    by_entity: dict[frozenset[tuple[str, str | None]], list[AlterClientQuotasRequest.Entry]] = {}
    for entry in request.entries:
        named = {part.entity_type: part.entity_name for part in entry.entity}
        by_entity.setdefault(frozenset(named.items()), []).append(entry)
    entries = []
    for parts, found in by_entity.items():
        named = dict(parts)
        code, message = ErrorCode.NONE, None
        changes = {op.key: None if op.remove else op.value for op in found[0].ops}
        try:
            if len(changes) < len(found[0].ops):
                raise _altered_twice(named)
            store.alter(named, changes, validate_only=request.validate_only)
        except ApiError as error:
            code, message = error.code, error.message
        if len(found) > 1:
            twice = _altered_twice(named)
            code, message = twice.code, twice.message
        entity = [
            _Entry.Entity(entity_type=kind, entity_name=name)
            for kind, name in sorted(named.items())
        ]
        entries.append(_Entry(error_code=code, error_message=message, entity=entity))
    return AlterClientQuotasResponse(entries=entries)


def _altered_twice(entity: Mapping[str, str | None]) -> ApiError:
    shown = ", ".join(f"{kind}={name}" for kind, name in entity.items())
    return ApiError(
        ErrorCode.INVALID_REQUEST,
        f"Ignoring duplicate entity ClientQuotaEntity(entries={{{shown}}})",
    )


APIS: Final[Mapping[ApiKey, Api]] = {
    ApiKey.DESCRIBE_CLIENT_QUOTAS: Api(
        describe_client_quotas, [Need(AclOperation.DESCRIBE_CONFIGS, ResourceType.CLUSTER)]
    ),
    ApiKey.ALTER_CLIENT_QUOTAS: Api(
        alter_client_quotas,
        [Need(AclOperation.ALTER_CONFIGS, ResourceType.CLUSTER, says=MEANING)],
    ),
}
