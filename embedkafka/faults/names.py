"""Names of APIs and errors, in any spelling that Kafka or its clients use.

`OffsetFetch`, `OFFSET_FETCH`, `offset_fetch` and `OffsetFetchRequest` are one API. A name that is
none is refused: a fault that never hits and an empty list of requests would make a test pass.
"""

from typing import Final, TypeVar

from embedkafka.runtime.arguments import require_known, require_text
from embedkafka.wire.protocol.api_keys import ApiKey
from embedkafka.wire.protocol.errors import ErrorCode

T = TypeVar("T", ApiKey, ErrorCode)

ANY_API: Final = "any"
"""Stands for every API."""

_FORMER_ERRORS: Final = {
    "notleaderforpartition": ErrorCode.NOT_LEADER_OR_FOLLOWER,
    "groupcoordinatornotavailable": ErrorCode.COORDINATOR_NOT_AVAILABLE,
    "grouploadinprogress": ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    "notcoordinatorforgroup": ErrorCode.NOT_COORDINATOR,
}
"""Names that older clients, librdkafka among them, still use."""


def parse_api(api: ApiKey | str) -> ApiKey:
    """The API with this name; raises `InvalidArgument` for an unknown one, with a near match."""
    if isinstance(api, ApiKey):
        return api
    known = {_plain(key.name): key for key in ApiKey}
    return _parse("Kafka API", require_text("api", api), known, suffix="request")


def parse_apis(api: ApiKey | str) -> ApiKey | None:
    """The API with this name; None for `"any"`."""
    if isinstance(api, str) and _plain(api) == ANY_API:
        return None
    return parse_api(api)


def parse_error(code: ErrorCode | str) -> ErrorCode:
    """The error with this name; raises `InvalidArgument` for an unknown one, with a near match."""
    if isinstance(code, ErrorCode):
        return code
    known = {_plain(error.name): error for error in ErrorCode} | _FORMER_ERRORS
    return _parse("Kafka error", require_text("code", code), known, suffix="exception")


def _parse(what: str, name: str, known: dict[str, T], *, suffix: str) -> T:
    plain = _plain(name)
    for spelling in (plain, plain.removesuffix(suffix)):
        if spelling in known:
            return known[spelling]
    # In Kafka's spelling, so that the message offers a name that can be copied.
    spelled = name.upper() if "_" in name or name.isupper() or name.islower() else _snake(name)
    require_known(what, spelled, {member.name for member in known.values()})
    raise AssertionError(f"{name} is known after all")


def _plain(name: str) -> str:
    return name.replace("_", "").replace("-", "").replace(" ", "").lower()


def _snake(name: str) -> str:
    return "".join(f"_{c}" if c.isupper() and i else c for i, c in enumerate(name)).upper()
