"""`Security`: how clients of a cluster log in and what they may do, in one value.

Everything else follows from it: listeners, certificates, credentials, ACLs. `prepare` makes what
must exist before the brokers start, and the settings with which they find it.
Not here: what clients need to connect (`client_access`).
"""

import random
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from embedkafka.cluster.access.control_plane import join_super_users, new_secret
from embedkafka.cluster.access.user_names import common_name, file_name, mapping_rules
from embedkafka.runtime.arguments import find_text_fault, require_text, shown
from embedkafka.runtime.clock import REAL_TIME
from embedkafka.runtime.failures import ConfigError
from embedkafka.runtime.files import Files
from embedkafka.runtime.temporary import replace_private
from embedkafka.runtime.values import dataclass, field
from embedkafka.security.sasl.scram_credentials import can_log_in
from embedkafka.server.config.listeners import PLAINTEXT, SECURITY_PROTOCOLS, parse_listeners
from embedkafka.zk.kafka_zk import KafkaZk
from embedkafka.zk.payloads import sanitize

if TYPE_CHECKING:
    from embedkafka.security.acl.acls import Acl

BROKERS_USER: Final = "embedkafka"
"""Whom brokers, and the library's own clients, log in as: a super user."""

AUTHORIZER: Final = "kafka.security.authorizer.AclAuthorizer"

_KAFKA: Final = "org.apache.kafka.common.security"
LOGIN_MODULES: Final[Mapping[str, str]] = {
    "PLAIN": f"{_KAFKA}.plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{_KAFKA}.scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{_KAFKA}.scram.ScramLoginModule",
    "OAUTHBEARER": f"{_KAFKA}.oauthbearer.OAuthBearerLoginModule",
}
_USERS: Final = "users"
_LOCAL_HOSTS: Final = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """How clients log in, and what they may do.

        Security(users={"alice": "a-secret"})
        Security(protocol="SSL", users=["alice"], acls=[Acl.allow("alice", "READ", topic="orders")])

    Args:
        protocol: `SASL_SSL`, `SASL_PLAINTEXT`, or `SSL`, where certificates are the credentials.
        mechanism: with SASL, `SCRAM-SHA-512`, `SCRAM-SHA-256`, `PLAIN` or `OAUTHBEARER`.
        users: passwords by name. With `SSL` or `OAUTHBEARER`, names are enough.
        acls: what users may do. None lets every user do everything; an empty list, nothing.
        super_users: users whom ACLs do not concern.

    The cluster makes its certificates itself, for which `embedkafka[security]` must be installed,
    unless the settings name others (`ssl.keystore.location`).

    Raises:
        ConfigError: an argument cannot be used.
    """

    protocol: str = "SASL_SSL"
    mechanism: str = "SCRAM-SHA-512"
    users: Mapping[str, str] | Sequence[str] = field(default_factory=dict, repr=False)
    acls: "Sequence[Acl] | None" = None
    super_users: Sequence[str] = ()

    def __post_init__(self) -> None:
        _require_one_of("protocol", self.protocol, SECURITY_PROTOCOLS[1:])
        _require_one_of("mechanism", self.mechanism, tuple(LOGIN_MODULES))
        self._require_users()
        if self.acls is not None:
            _require_acls(self.acls)
        _require_names("super_users", self.super_users)
        for name in self.super_users:
            if ";" in name:
                raise ConfigError(
                    f"super.users separates names by semicolons, and {name!r} has one"
                )

    @property
    def names(self) -> list[str]:
        """The users' names."""
        return list(self.users)

    @property
    def uses_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.protocol.endswith("SSL")

    @property
    def uses_sasl(self) -> bool:
        """Whether clients log in with SASL."""
        return self.protocol.startswith("SASL_")

    @property
    def uses_scram(self) -> bool:
        """Whether clients log in with SCRAM."""
        return self.uses_sasl and self.mechanism.startswith("SCRAM")

    def _require_users(self) -> None:
        needs_passwords = self.uses_sasl and self.mechanism != "OAUTHBEARER"
        if isinstance(self.users, str) or not isinstance(self.users, Mapping | Sequence):
            raise ConfigError('users must be a mapping such as {"alice": "a-secret"}')
        if needs_passwords and not isinstance(self.users, Mapping):
            name = self.names[0] if self.names else "alice"
            raise ConfigError(f'{self.mechanism} needs passwords: users={{"{name}": "a-secret"}}')
        for name in self.users:
            require_text("the name of a user", name, refusal=ConfigError)
            if not name.isprintable():
                raise ConfigError(f"the name of user {name!r} has a character that cannot be shown")
            if self.uses_scram and not can_log_in(name):
                raise ConfigError(
                    f"user {name} could never log in: names in {self.mechanism} are ASCII, as in "
                    "Kafka. PLAIN, OAUTHBEARER and SSL take any name"
                )
            if name == BROKERS_USER:
                raise ConfigError(f"{BROKERS_USER} is the user that brokers log in as")
            password = find_password(self, name)
            if needs_passwords:
                _require_password(name, password)


def listener_settings(security: Security, given: Mapping[str, object]) -> dict[str, object]:
    """The settings that need nothing prepared, beside those that the user has given."""
    settings: dict[str, object] = {"listeners": f"{security.protocol}://:0"}
    if not given.get("inter.broker.listener.name"):
        settings["security.inter.broker.protocol"] = security.protocol
    return settings


def find_password(security: Security, user: str) -> str | None:
    """A user's password; None if there is no such user. Empty if users need none."""
    if isinstance(security.users, Mapping):
        return security.users.get(user)
    return "" if user in security.users else None


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedSecurity:
    """What brokers need, made for one run."""

    settings: Mapping[str, object] = field(repr=False)
    security: Security
    password: str = field(repr=False)
    """That of the user whom brokers log in as."""
    directory: Path
    """Where the certificates are, if some were made."""
    certificates: "MadeCertificates | None" = None
    """None if the settings name others, or no listener speaks TLS."""

    def store_users(self, zk: KafkaZk, rng: random.Random) -> None:
        """Adds the users to the store, where SCRAM looks for them."""
        if not self._stored_users:
            return
        from embedkafka.security.credentials import ScramCredentials

        zk.make_persistent_paths()
        credentials = ScramCredentials(zk)
        for user, password in self._stored_users.items():
            credentials.set_password(user, self.security.mechanism, password, rng)

    def stored_settings(self) -> set[tuple[str, str, str]]:
        """What `store_users` adds: type and name of each entity, and key."""
        from embedkafka.security.credentials import USERS

        mechanism = self.security.mechanism
        return {(USERS, sanitize(user), mechanism) for user in self._stored_users}

    @property
    def _stored_users(self) -> dict[str, str]:
        security = self.security
        if not security.uses_scram:
            return {}
        users = {user: find_password(security, user) or "" for user in security.names}
        return {BROKERS_USER: self.password, **users}


def prepare(
    security: Security,
    given: Mapping[str, object],
    directory: Path,
    *,
    host: str,
    files: Files,
) -> PreparedSecurity:
    """Makes certificates in `directory`, unless `given` names others, and the brokers' settings."""
    settings = listener_settings(security, given)
    password = new_secret()
    certificates: MadeCertificates | None = None
    if security.uses_tls:
        if not any(name.startswith("ssl.keystore.") for name in given):
            hosts = (host, *_hosts(given), *_LOCAL_HOSTS)
            certificates = MadeCertificates(directory, hosts, files)
            settings |= certificates.make(security)
        if security.protocol == "SSL":
            settings["ssl.client.auth"] = _client_auth(security)
            settings["ssl.principal.mapping.rules"] = mapping_rules(security.names)
    if security.uses_sasl:
        settings |= _sasl_settings(security, password)
    if security.acls is not None:
        settings["authorizer.class.name"] = AUTHORIZER
    settings |= given
    if settings.get("authorizer.class.name"):
        super_users = [BROKERS_USER, *security.super_users]
        settings["super.users"] = join_super_users(given, super_users)
    return PreparedSecurity(
        settings=settings,
        security=security,
        password=password,
        directory=directory,
        certificates=certificates,
    )


def _client_auth(security: Security) -> str:
    """Without users, clients are anonymous; brokers still need their name if there are ACLs."""
    if security.users:
        return "required"
    return "none" if security.acls is None else "requested"


class MadeCertificates:
    """The certificates of one run, in files, and the authority that issues more of them."""

    def __init__(self, directory: Path, hosts: Sequence[str], files: Files) -> None:
        from embedkafka.security.certificates import CertificateAuthority

        # Clients live in real time.
        now = datetime.fromtimestamp(REAL_TIME.now_ms() / 1000, UTC)
        self._authority = CertificateAuthority(now)
        self._directory = directory
        self._hosts = hosts
        self._files = files
        self._issued = 0

    def make(self, security: Security) -> dict[str, object]:
        """Makes those of the brokers and, with `SSL`, of the users; returns brokers' settings."""
        self._files.make_directory(self._directory / _USERS)
        if security.protocol == "SSL":
            for user in security.names:
                pem = self._authority.issue(common_name(user))
                self._write(user_key(self._directory, user), pem)
        brokers = self._authority.issue(BROKERS_USER, self._hosts)
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self._write(user_key(self._directory, BROKERS_USER), brokers),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self._write(
                self._directory / "ca.pem", self._authority.trusted
            ),
        }

    def issue_again(self, *, expired: bool) -> Path:
        """Another key and certificate for the brokers."""
        from embedkafka.security.certificates import LIFETIME

        lifetime = timedelta(hours=-1) if expired else LIFETIME
        self._issued += 1
        pem = self._authority.issue(BROKERS_USER, self._hosts, lifetime=lifetime)
        return self._write(self._directory / f"{BROKERS_USER}-{self._issued}.pem", pem)

    def _write(self, path: Path, pem: str) -> Path:
        replace_private(path, pem.encode())
        return path


def user_key(directory: Path, user: str) -> Path:
    """Where a user's key and certificate are, apart from those of the cluster itself."""
    if user == BROKERS_USER:
        return directory / f"{BROKERS_USER}.pem"
    return directory / _USERS / file_name(user, "pem")


def _hosts(given: Mapping[str, object]) -> list[str]:
    keys = ("listeners", "advertised.listeners")
    return [one.host for key in keys for one in parse_listeners(given, key) if one.host]


def _sasl_settings(security: Security, password: str) -> dict[str, object]:
    mechanism = security.mechanism
    options = {"username": BROKERS_USER, "password": password}
    if mechanism == "OAUTHBEARER":
        options = {"unsecuredLoginStringClaim_sub": BROKERS_USER}
    elif mechanism == "PLAIN":
        passwords = {name: find_password(security, name) or "" for name in security.names}
        passwords[BROKERS_USER] = password
        options |= {f"user_{name}": word for name, word in passwords.items()}
    prefix = f"listener.name.{security.protocol.lower()}.{mechanism.lower()}"
    return {
        "sasl.enabled.mechanisms": mechanism,
        "sasl.mechanism.inter.broker.protocol": mechanism,
        f"{prefix}.sasl.jaas.config": login_module(mechanism, options),
    }


def login_module(mechanism: str, options: Mapping[str, str]) -> str:
    """The value of `sasl.jaas.config`."""
    pairs = (f"{_word(name)}={_quoted(value)}" for name, value in options.items())
    return f"{LOGIN_MODULES[mechanism]} required {' '.join(pairs)};"


def _word(name: str) -> str:
    """An option's name, which may contain that of a user."""
    return name if re.fullmatch(r"\w[\w.-]*", name, re.ASCII) else _quoted(name)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _require_names(name: str, names: object) -> None:
    if not isinstance(names, list | tuple | set | frozenset):
        raise ConfigError(f'{name} must be a list such as ["alice"], got {shown(names)}')
    for one in names:
        require_text(f"an entry of {name}", one, refusal=ConfigError)


def _require_password(user: str, password: object) -> None:
    """Does not show it."""
    if not isinstance(password, str) or not password:
        raise ConfigError(f"the password of user {user} must be a text that is not empty")
    if fault := find_text_fault(password):
        raise ConfigError(f"the password of user {user} {fault}")


def _require_acls(acls: object) -> None:
    from embedkafka.security.acl.acls import Acl

    if not isinstance(acls, list | tuple) or not all(isinstance(acl, Acl) for acl in acls):
        raise ConfigError(
            f'acls must be a list such as [Acl.allow("job", "READ", topic="orders")], '
            f"got {shown(acls)}"
        )


def _require_one_of(name: str, value: object, allowed: Sequence[str]) -> None:
    if value not in allowed:
        hint = "; leave out `security` for plain text" if value == PLAINTEXT else ""
        raise ConfigError(f"{name} must be one of {', '.join(allowed)}, got {shown(value)}{hint}")
