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

from embedkafka.broker.settings.listeners import (
    PLAINTEXT,
    SECURITY_PROTOCOLS,
    Placement,
    parse_listeners,
)
from embedkafka.cluster.access.control_plane import join_super_users, new_secret
from embedkafka.cluster.access.sasl_settings import (
    BROKERS_USER,
    all_accounts,
    find_password,
    listener_settings,
    login_settings,
)
from embedkafka.cluster.access.user_names import common_name, file_name, mapping_rules
from embedkafka.runtime.addresses import is_wildcard
from embedkafka.runtime.arguments import find_text_fault, require_text, shown
from embedkafka.runtime.clock import REAL_TIME
from embedkafka.runtime.failures import ConfigError
from embedkafka.runtime.files import Files
from embedkafka.runtime.temporary import replace_private
from embedkafka.runtime.values import dataclass, field
from embedkafka.security.principals import ANONYMOUS
from embedkafka.security.sasl.scram_credentials import HASHES, can_log_in
from embedkafka.wire.net.transport import own_address
from embedkafka.zk.kafka_zk import KafkaZk
from embedkafka.zk.payloads import sanitize

if TYPE_CHECKING:
    from embedkafka.security.acl.acls import Acl

AUTHORIZER: Final = "kafka.security.authorizer.AclAuthorizer"

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_DEFAULT_MECHANISM: Final = "SCRAM-SHA-512"
_USERS: Final = "users"
_LOCAL_HOSTS: Final = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """How clients log in, and what they may do.

        Security(users={"alice": "a-secret"})
        Security(protocol="SSL", users=["alice"], acls=[Acl.allow("alice", "READ", topic="orders")])

    Args:
        protocol: `SASL_SSL`, `SASL_PLAINTEXT`, or `SSL`, where certificates are the credentials.
        mechanism: with SASL, `SCRAM-SHA-512` (the default), `SCRAM-SHA-256`, `PLAIN` or
            `OAUTHBEARER`, or a list of them. Users may log in with each, brokers use the first.
        users: passwords by name. With `SSL` or `OAUTHBEARER`, names are enough.
        acls: what users may do. None lets every user do everything; an empty list, nothing.
        super_users: users whom ACLs do not concern.
        anonymous: whether there is a listener `PLAINTEXT` too, for clients that do not log in.
            ACLs call them `ANONYMOUS`; without `acls`, they may do everything.

    The cluster makes its certificates itself, for which `embedkafka[security]` must be installed,
    unless the settings name others (`ssl.keystore.location`).

    Raises:
        ConfigError: an argument cannot be used.
    """

    protocol: str = "SASL_SSL"
    mechanism: str | Sequence[str] | None = None
    users: Mapping[str, str] | Sequence[str] = field(default_factory=dict, repr=False)
    acls: "Sequence[Acl] | None" = None
    super_users: Sequence[str] = ()
    anonymous: bool = False

    def __post_init__(self) -> None:
        _require_one_of("protocol", self.protocol, SECURITY_PROTOCOLS[1:])
        self._require_mechanisms()
        self._require_users()
        if self.acls is not None:
            _require_acls(self.acls)
        _require_names("super_users", self.super_users)
        for name in self.super_users:
            if ";" in name:
                raise ConfigError(
                    f"super.users separates names by semicolons, and {name!r} has one"
                )
        if not isinstance(self.anonymous, bool):
            raise ConfigError(f"anonymous must be True or False, got {shown(self.anonymous)}")

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
    def mechanisms(self) -> tuple[str, ...]:
        """How clients may log in; nothing without SASL."""
        if not self.uses_sasl:
            return ()
        given = _DEFAULT_MECHANISM if self.mechanism is None else self.mechanism
        return (given,) if isinstance(given, str) else tuple(given)

    @property
    def scram_mechanisms(self) -> list[str]:
        """Those whose credentials are in the store."""
        return [one for one in self.mechanisms if one in HASHES]

    def _require_mechanisms(self) -> None:
        given = self.mechanism
        if given is None:
            return
        if not self.uses_sasl:
            raise ConfigError(
                f"{self.protocol} has no mechanism: certificates are the credentials. Leave out "
                "`mechanism`, or choose SASL_SSL or SASL_PLAINTEXT"
            )
        if not isinstance(given, str | list | tuple) or not given:
            raise ConfigError(
                'mechanism must be a name such as "PLAIN" or a list such as '
                f'["PLAIN", "SCRAM-SHA-512"], got {shown(given)}'
            )
        if "GSSAPI" in self.mechanisms:
            raise ConfigError(
                "GSSAPI needs the keytab of a KDC, which the settings name: "
                "`sasl.enabled.mechanisms` and a login module, without a mechanism here"
            )
        for mechanism in self.mechanisms:
            _require_one_of("mechanism", mechanism, MECHANISMS)
        if len(set(self.mechanisms)) < len(self.mechanisms):
            raise ConfigError(f"mechanism names {_repeated(self.mechanisms)} twice")

    def _require_users(self) -> None:
        with_passwords = [one for one in self.mechanisms if one != "OAUTHBEARER"]
        if isinstance(self.users, str) or not isinstance(self.users, Mapping | Sequence):
            raise ConfigError('users must be a mapping such as {"alice": "a-secret"}')
        if with_passwords and not isinstance(self.users, Mapping):
            name = self.names[0] if self.names else "alice"
            raise ConfigError(
                f'{with_passwords[0]} needs passwords: users={{"{name}": "a-secret"}}'
            )
        for name in self.users:
            require_text("the name of a user", name, refusal=ConfigError)
            if not name.isprintable():
                raise ConfigError(f"the name of user {name!r} has a character that cannot be shown")
            if self.scram_mechanisms and not can_log_in(name):
                raise ConfigError(
                    f"user {name} could never log in: names in {self.scram_mechanisms[0]} are "
                    "ASCII, as in "
                    "Kafka. PLAIN, OAUTHBEARER and SSL take any name"
                )
            if name == BROKERS_USER:
                raise ConfigError(f"{BROKERS_USER} is the user that brokers log in as")
            if self.anonymous and name == ANONYMOUS.name:
                raise ConfigError(f"{name} is the user of clients that do not log in")
            if with_passwords:
                _require_password(name, find_password(self, name))


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
        mechanisms = self.security.scram_mechanisms
        if not mechanisms:
            return
        from embedkafka.security.credentials import ScramCredentials

        zk.make_persistent_paths()
        credentials = ScramCredentials(zk)
        for user, password in self.accounts.items():
            for mechanism in mechanisms:
                credentials.set_password(user, mechanism, password, rng)

    def stored_settings(self) -> set[tuple[str, str, str]]:
        """What `store_users` adds: type and name of each entity, and key."""
        from embedkafka.security.credentials import USERS

        mechanisms = self.security.scram_mechanisms
        return {(USERS, sanitize(user), one) for user in self.accounts for one in mechanisms}

    @property
    def accounts(self) -> dict[str, str]:
        """Everyone's password, the brokers' user among them."""
        return all_accounts(self.security, self.password)


def prepare(
    security: Security,
    given: Mapping[str, object],
    directory: Path,
    *,
    placement: Placement,
    files: Files,
) -> PreparedSecurity:
    """Makes certificates in `directory`, unless `given` names others, and the brokers' settings."""
    settings = listener_settings(security, given)
    password = new_secret()
    certificates: MadeCertificates | None = None
    if security.uses_tls:
        if not any(name.startswith("ssl.keystore.") for name in given):
            hosts = (*_hosts(given, placement), *_LOCAL_HOSTS)
            certificates = MadeCertificates(directory, hosts, files)
            settings |= certificates.make(security)
        if security.protocol == "SSL":
            settings["ssl.client.auth"] = _client_auth(security)
            settings["ssl.principal.mapping.rules"] = mapping_rules(security.names)
    if security.acls is not None:
        settings["authorizer.class.name"] = AUTHORIZER
    settings |= given
    settings |= login_settings(security, settings, password)
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


def _hosts(given: Mapping[str, object], placement: Placement) -> list[str]:
    """Where clients may believe the brokers to be."""
    keys = ("listeners", "advertised.listeners")
    named = [one.host for key in keys for one in parse_listeners(given, key)]
    hosts = filter(None, [placement.host, placement.advertise, *named])
    return [own_address(host) if is_wildcard(host) else host for host in hosts]


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


def _repeated(names: Sequence[str]) -> str:
    return next(name for name in names if names.count(name) > 1)


def _require_one_of(name: str, value: object, allowed: Sequence[str]) -> None:
    if value not in allowed:
        hint = "; leave out `security` for plain text" if value == PLAINTEXT else ""
        raise ConfigError(f"{name} must be one of {', '.join(allowed)}, got {shown(value)}{hint}")
