"""The names that clients give themselves in ApiVersions (KIP-511)."""

import re
from typing import Final

from embedkafka.runtime.values import NamedTuple

_WORD: Final = r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?"
_FIRST_WITH_NAMES: Final = 3


class ClientSoftware(NamedTuple):
    """The name and the version of a client's software; "unknown" until the client says them."""

    name: str = "unknown"
    version: str = "unknown"


UNKNOWN_SOFTWARE: Final = ClientSoftware()


def has_valid_software(api_version: int, name: str, version: str) -> bool:
    """Whether a client's name and version are plain words, or the request is too old for them."""
    return api_version < _FIRST_WITH_NAMES or all(
        re.fullmatch(_WORD, word) for word in (name, version)
    )
