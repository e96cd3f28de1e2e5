"""`Security`: how clients of a cluster log in and what they may do, in one value.

Everything else follows from it: listeners, certificates, credentials, ACLs. `prepare` makes what
must exist before the brokers start, and the settings with which they find it.
Not here: what clients need to connect (`client_access`).
"""

import random
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from embedkafka.cluster.access.control_plane import join_super_users
from embedkafka.runtime.clock import REAL_TIME
from embedkafka.runtime.failures import ConfigError
from embedkafka.runtime.files import Files
from embedkafka.runtime.values import dataclass, field
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
_COMMON_NAME: Final = "RULE:^CN=([^,]*).*$/$1/,DEFAULT"
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
        if isinstance(self.super_users, str):
            raise ConfigError(f'super_users must be a list such as ["{self.super_users}"]')

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

    def _require_users(self) -> None:
        needs_passwords = self.uses_sasl and self.mechanism != "OAUTHBEARER"
        if isinstance(self.users, str) or not isinstance(self.users, Mapping | Sequence):
            raise ConfigError('users must be a mapping such as {"alice": "a-secret"}')
        if needs_passwords and not isinstance(self.users, Mapping):
            raise ConfigError(
                f'{self.mechanism} needs passwords: users={{"{self.names[0]}": "a-secret"}}'
            )
        for name in self.users:
            if not isinstance(name, str) or not name:
                raise ConfigError("the name of a user must be a text that is not empty")
            if name == BROKERS_USER:
                raise ConfigError(f"{BROKERS_USER} is the user that brokers log in as")
            password = find_password(self, name)
            if needs_passwords and not (isinstance(password, str) and password):
                raise ConfigError(f"the password of user {name} must be a text that is not empty")


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
        if not (security.uses_sasl and security.mechanism.startswith("SCRAM")):
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
    rng: random.Random,
) -> PreparedSecurity:
    """Makes certificates in `directory`, unless `given` names others, and the brokers' settings."""
    settings = listener_settings(security, given)
    password = f"{rng.getrandbits(128):032x}"
    certificates: MadeCertificates | None = None
    if security.uses_tls:
        if not any(name.startswith("ssl.keystore.") for name in given):
            hosts = (host, *_hosts(given), *_LOCAL_HOSTS)
            certificates = MadeCertificates(directory, hosts, files)
            settings |= certificates.make(security)
        if security.protocol == "SSL":
            settings["ssl.client.auth"] = "required" if security.users else "none"
            settings["ssl.principal.mapping.rules"] = _COMMON_NAME
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
        self._files.make_directory(self._directory)
        if security.protocol == "SSL":
            for user in security.names:
                self._write(f"{user}.pem", self._authority.issue(user))
        brokers = self._authority.issue(BROKERS_USER, self._hosts)
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self._write(f"{BROKERS_USER}.pem", brokers),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self._write("ca.pem", self._authority.trusted),
        }

    def issue_again(self, *, expired: bool) -> Path:
        """Another key and certificate for the brokers."""
        from embedkafka.security.certificates import LIFETIME

        lifetime = timedelta(hours=-1) if expired else LIFETIME
        self._issued += 1
        pem = self._authority.issue(BROKERS_USER, self._hosts, lifetime=lifetime)
        return self._write(f"{BROKERS_USER}-{self._issued}.pem", pem)

    def _write(self, name: str, pem: str) -> Path:
        self._files.replace(self._directory / name, pem.encode())
        return self._directory / name


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
    quoted = " ".join(f'{name}="{_escaped(value)}"' for name, value in options.items())
    return f"{LOGIN_MODULES[mechanism]} required {quoted};"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"')


def _require_acls(acls: object) -> None:
    from embedkafka.security.acl.acls import Acl

    if not isinstance(acls, list | tuple) or not all(isinstance(acl, Acl) for acl in acls):
        raise ConfigError(
            f'acls must be a list such as [Acl.allow("job", "READ", topic="orders")], got {acls!r}'
        )


def _require_one_of(name: str, value: object, allowed: Sequence[str]) -> None:
    if value not in allowed:
        hint = "; leave out `security` for plain text" if value == PLAINTEXT else ""
        raise ConfigError(f"{name} must be one of {', '.join(allowed)}, got {value!r}{hint}")
