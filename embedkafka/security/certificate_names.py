"""The name that a client's certificate gives it: Kafka's `ssl.principal.mapping.rules`.

The subject is spelled as Java spells it (RFC 2253), because rules and ACLs are written for that.
"""

import ipaddress
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from embedkafka.runtime.failures import ConfigError
from embedkafka.runtime.values import dataclass

_KEYWORDS: Final[Mapping[str, str]] = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
"""The attributes that RFC 2253 names; others are written as numbers."""

_OBJECT_ID: Final = 0x06
_UNIVERSAL: Final = 0x1C
_BMP: Final = 0x1E
_TEXTS: Final[Mapping[int, str]] = {
    0x0C: "utf-8",
    0x12: "ascii",
    0x13: "ascii",
    0x14: "latin-1",
    0x16: "ascii",
    _UNIVERSAL: "utf-32-be",
    _BMP: "utf-16-be",
}
_EXPLICIT_VERSION: Final = 0xA0
_EXTENSIONS: Final = 0xA3
_ALTERNATIVE_NAMES: Final = "2.5.29.17"
_ADDRESS: Final = 7
_NUMBER: Final = 0x1F
_EXCEPTION: Final = "org.apache.kafka.common.config.ConfigException"
_LONG_FORM: Final = 0x80

_RULE: Final = re.compile(
    r"\s*(?:(?P<default>DEFAULT)"
    r"|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?))"
    r"\s*(?:,|$)"
)


_REFERENCE: Final = re.compile(r"\\(.)|\$(\d)")


@dataclass(frozen=True, slots=True, kw_only=True)
class NameRule:
    """Turns a distinguished name that matches `pattern` into a short one; `DEFAULT` without one."""

    pattern: re.Pattern[str] | None = None
    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        short = self.pattern.sub(self._expand, name)
        match self.case:
            case "L":
                return short.lower()
            case "U":
                return short.upper()
        return short

    def _expand(self, found: re.Match[str]) -> str:
        """The replacement as Java reads it: `$1` is a group, a backslash quotes."""

        def part(reference: re.Match[str]) -> str:
            quoted, number = reference.groups()
            if number is None:
                return str(quoted)
            is_group = int(number) <= found.re.groups
            return (found[int(number)] or "") if is_group else reference[0]

        return _REFERENCE.sub(part, self.replacement)


def parse_rules(text: str) -> Sequence[NameRule]:
    """The rules of `ssl.principal.mapping.rules`; raises ConfigError for anything else."""
    rules: list[NameRule] = []
    position = 0
    while position < len(text.rstrip()):
        found = _RULE.match(text, position)
        if found is None or found.end() == position:
            raise ConfigError(
                f"ssl.principal.mapping.rules: {text[position:]!r} is neither DEFAULT nor "
                "RULE:pattern/replacement/[LU]"
            )
        position = found.end()
        rules.append(NameRule() if found["default"] else _rule(found))
    return rules or [NameRule()]


def map_name(rules: Sequence[NameRule], name: str) -> str | None:
    """The name after the first rule that applies; None if none does."""
    return next((short for rule in rules if (short := rule.apply(name)) is not None), None)


def _rule(found: re.Match[str]) -> NameRule:
    try:
        return NameRule(
            pattern=re.compile(found["pattern"]),
            replacement=found["replacement"],
            case=found["case"],
        )
    except re.error as error:
        raise ConfigError(
            f"ssl.principal.mapping.rules: {found['pattern']!r} is no regular expression: {error}"
        ) from error


def subject_of(certificate: bytes) -> str:
    """The subject of a DER certificate, spelled like Java's `X500Principal.getName()`."""
    # serial number, signature, issuer, validity, subject
    return _spelled(_fields(certificate)[4][1])


def format_common_name(name: str) -> str:
    """The subject of a certificate that has only this common name."""
    return f"CN={_escaped(name)}"


def hosts_of(certificate: bytes) -> frozenset[str]:
    """The names and addresses of a server in a DER certificate, such as `[7, 127.0.0.1]`."""
    found = [content for tag, content in _fields(certificate) if tag == _EXTENSIONS]
    for _, extensions in _elements(b"".join(found)):
        for _, extension in _elements(extensions):
            (_, oid), *_, (_, value) = _elements(extension)
            if _object_id(oid) == _ALTERNATIVE_NAMES:
                [(_, names)] = _elements(value)
                return frozenset(_host(tag, name) for tag, name in _elements(names))
    return frozenset()


def check_same_names(
    old: bytes, new: bytes, *, subject_may_change: bool, hosts_may_change: bool
) -> None:
    """Refuses, as Kafka does, a new certificate of a running listener that names another server."""
    if not subject_may_change and subject_of(old) != subject_of(new):
        raise ConfigError(
            f"{_EXCEPTION}: Keystore DistinguishedName does not match:  "
            f"existing={{alias=kafka, DN={subject_of(old)}}}, "
            f"new={{alias=kafka, DN={subject_of(new)}}}"
        )
    if not hosts_may_change and not hosts_of(old) <= hosts_of(new):
        raise ConfigError(
            f"{_EXCEPTION}: Keystore SubjectAltNames do not match:  "
            f"existing={_listed(hosts_of(old))}, new={_listed(hosts_of(new))}"
        )


def _fields(certificate: bytes) -> list[tuple[int, bytes]]:
    """What is signed, without the version."""
    [(_, whole)] = _elements(certificate)
    (_, to_be_signed), *_ = _elements(whole)
    return [one for one in _elements(to_be_signed) if one[0] != _EXPLICIT_VERSION]


def _spelled(name: bytes) -> str:
    relative = [
        "+".join(map(_attribute, (content for _, content in _elements(part))))
        for _, part in _elements(name)
    ]
    return ",".join(reversed(relative))


def _host(tag: int, name: bytes) -> str:
    number = tag & _NUMBER
    text = str(ipaddress.ip_address(name)) if number == _ADDRESS else name.decode("latin-1")
    return f"[{number}, {text}]"


def _listed(hosts: frozenset[str]) -> str:
    return f"{{alias=kafka, SAN=[{', '.join(sorted(hosts))}]}}"


def _attribute(content: bytes) -> str:
    (_, oid), (tag, value) = _elements(content)
    name = _object_id(oid)
    keyword = _KEYWORDS.get(name)
    if keyword is None or tag not in _TEXTS:
        return f"{keyword or name}=#{_encoded(tag, value).hex()}"
    return f"{keyword}={_escaped(value.decode(_TEXTS[tag], 'replace'))}"


def _escaped(text: str) -> str:
    """Java escapes "#" and "=" anywhere, where RFC 2253 need not."""
    escaped = re.sub(r'([,+"\\<>;#=])', r"\\\1", text)
    if escaped.startswith(" "):
        escaped = "\\" + escaped
    if escaped.endswith(" ") and len(escaped) > 1:
        escaped = escaped[:-1] + "\\ "
    return escaped


def _elements(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The DER elements that follow each other in `data`: tag and content."""
    position = 0
    while position < len(data):
        tag, size = data[position], data[position + 1]
        position += 2
        if size & _LONG_FORM:
            count = size - _LONG_FORM
            size = int.from_bytes(data[position : position + count])
            position += count
        yield tag, data[position : position + size]
        position += size


def _encoded(tag: int, content: bytes) -> bytes:
    size = len(content)
    if size < _LONG_FORM:
        return bytes([tag, size]) + content
    length = size.to_bytes((size.bit_length() + 7) // 8)
    return bytes([tag, _LONG_FORM + len(length)]) + length + content


def _object_id(content: bytes) -> str:
    numbers: list[int] = []
    number = 0
    for byte in content:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, [first, numbers[0] - 40 * first, *numbers[1:]]))
