"""Users' names where not every name fits: in files, and in the subjects of certificates."""

import hashlib
import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import quote

from embedkafka.security.certificate_names import format_common_name

_PLAIN: Final = re.compile(r"[a-z0-9_][a-z0-9._-]{0,63}")
_LONGEST_COMMON_NAME: Final = 64  # bytes; RFC 5280, ub-common-name
_SHOWN: Final = 40
_SPECIAL: Final = re.compile(r"([\\/$])")

_ANY_COMMON_NAME: Final = r"RULE:^CN=((?:[^,\\]|\\.)*).*$/$1/"


def file_name(user: str, ending: str) -> str:
    """A name that no other user's file has, on file systems that ignore case too."""
    if _PLAIN.fullmatch(user):
        return f"{user}.{ending}"
    digest = hashlib.sha256(user.encode()).hexdigest()
    return f"{quote(user, safe='')[:_SHOWN]}={digest}.{ending}"


def common_name(user: str) -> str:
    """The user in a certificate; a digest stands for a name that is too long."""
    if len(user.encode()) <= _LONGEST_COMMON_NAME:
        return user
    return hashlib.sha256(user.encode()).hexdigest()


def mapping_rules(users: Iterable[str]) -> str:
    """The `ssl.principal.mapping.rules` that find these users again, and others by common name.

    A common name in a subject has a backslash before signs such as the comma, which ACLs lack.
    """
    unusual = [user for user in users if not _PLAIN.fullmatch(user)]
    return ",".join([*map(_rule, unusual), _ANY_COMMON_NAME, "DEFAULT"])


def _rule(user: str) -> str:
    pattern = re.escape(format_common_name(common_name(user))).replace("/", r"\/")
    replacement = _SPECIAL.sub(r"\\\1", user)
    return f"RULE:^{pattern}$/{replacement}/"
