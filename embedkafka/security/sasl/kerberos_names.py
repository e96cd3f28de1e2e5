"""From a Kerberos principal to a user: `sasl.kerberos.principal.to.local.rules`.

The rules are those of `auth_to_local` in krb5.conf, as Kafka reads them.
"""

import re
from collections.abc import Sequence
from typing import Final

from embedkafka.runtime.failures import ConfigError
from embedkafka.runtime.values import dataclass

_RULE: Final = re.compile(
    r"RULE:\[(?P<count>\d+):(?P<format>[^\]]*)\](?:\((?P<match>[^)]*)\))?"
    r"(?:s/(?P<pattern>[^/]*)/(?P<replacement>[^/]*)/(?P<all>g)?)?/?(?P<case>[LU])?"
)
_NAME: Final = re.compile(r"(?P<first>[^/@]*)(?:/(?P<second>[^/@]*))?(?:@(?P<realm>[^/@]*))?")
_PARAMETER: Final = re.compile(r"\$(\d)")


class NoMatchingRule(Exception):
    """No rule makes a user of the principal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    count: int
    format: str
    match: str | None
    pattern: str | None
    replacement: str
    replaces_all: bool
    case: str | None

    def apply(self, realm: str, components: Sequence[str]) -> str | None:
        """The user, or None if the rule is for other principals."""
        if len(components) != self.count:
            return None
        values = (realm, *components)
        base = _PARAMETER.sub(lambda found: values[int(found[1])], self.format)
        if self.match is not None and not re.fullmatch(self.match, base):
            return None
        if self.pattern is not None:
            count = 0 if self.replaces_all else 1
            base = re.sub(self.pattern, self.replacement, base, count=count)
        return {"L": base.lower, "U": base.upper}.get(self.case or "", lambda: base)()


class KerberosNames:
    """Makes users of principals; the rule DEFAULT takes the name of those in `default_realm`."""

    def __init__(self, rules: Sequence[str], *, default_realm: str) -> None:
        self._rules = [None if rule == "DEFAULT" else _parse(rule) for rule in rules]
        self._default_realm = default_realm

    def short_name(self, principal: str) -> str:
        """Raises `NoMatchingRule`."""
        name = _NAME.fullmatch(principal)
        if name is None:
            raise NoMatchingRule(f"{principal!r} is no Kerberos principal")
        components = [part for part in (name["first"], name["second"]) if part is not None]
        if name["realm"] is None and len(components) == 1:
            return components[0]
        for rule in self._rules:
            found = self._apply(rule, name["realm"] or "", components)
            if found is not None:
                if re.search("[/@]", found):
                    break
                return found
        raise NoMatchingRule(f"no rule makes a user of {principal!r}")

    def _apply(self, rule: _Rule | None, realm: str, components: Sequence[str]) -> str | None:
        if rule is not None:
            return rule.apply(realm, components)
        return components[0] if realm == self._default_realm else None


def _parse(text: str) -> _Rule:
    match = _RULE.fullmatch(text)
    if match is None:
        raise ConfigError(f"sasl.kerberos.principal.to.local.rules: {text!r} is no rule")
    rule = _Rule(
        count=int(match["count"]),
        format=match["format"],
        match=match["match"],
        pattern=match["pattern"],
        replacement=_PARAMETER.sub(r"\\\1", match["replacement"] or ""),
        replaces_all=match["all"] is not None,
        case=match["case"],
    )
    if any(int(found) > rule.count for found in _PARAMETER.findall(rule.format)):
        raise ConfigError(f"sasl.kerberos.principal.to.local.rules: {text!r} has too few parts")
    return rule
