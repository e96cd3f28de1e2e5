"""`kafka.logins`: credentials, tokens and certificates, changed while clients use them."""

import random
from collections.abc import Callable, Collection

from embedkafka.broker.listener_authentication import Authentication, asks_for_sasl
from embedkafka.broker.settings.dynamic import BROKERS
from embedkafka.broker.settings.listener_keys import LISTENER_PREFIX
from embedkafka.cluster.access.sasl_settings import BROKERS_USER
from embedkafka.cluster.access.security import MadeCertificates
from embedkafka.cluster.brokers import Brokers
from embedkafka.runtime.arguments import require_text
from embedkafka.runtime.failures import ConfigError, InvalidArgument
from embedkafka.security.credentials import ScramCredentials
from embedkafka.security.principals import KafkaPrincipal
from embedkafka.security.sasl.scram_credentials import HASHES, can_log_in


class Logins:
    """Who may log in. A change holds on every running broker when its call returns.

        kafka.logins.revoke("job")          # while the job runs

    Kafka itself leaves connections alone when a credential changes. Here the client's connections
    end too, so that the test sees at once what the client does when it cannot log in again.
    """

    def __init__(
        self, brokers: Brokers, rng: random.Random, certificates: MadeCertificates | None
    ) -> None:
        self._brokers = brokers
        self._rng = rng
        self._certificates = certificates

    def revoke(self, user: str) -> None:
        """Takes the user's credentials away, and ends its connections.

        A password of PLAIN is part of the settings, so a restarted broker accepts it again. The end
        of the test and `kafka.reset()` give the credentials back. Unsecured bearer tokens cannot be
        taken away: clients make them.

        Raises:
            InvalidArgument: the user has no credentials.
        """
        require_text("user", user)
        credentials = self._credentials()
        revoked = [credentials.delete(user, mechanism) for mechanism in HASHES]
        revoked += [one.revoke(user) for one in self._authentications()]
        if not any(revoked):
            raise InvalidArgument(f"user {user!r} has no credentials of SCRAM or PLAIN")
        self._log_out(lambda one: one.name == user, f"the credentials of {user} are revoked")

    def set_password(self, user: str, password: str, mechanism: str | None = None) -> None:
        """Gives a user, known or new, a credential of SCRAM for this password.

        Args:
            user: the user's name.
            password: the password.
            mechanism: one of SCRAM's. Default: each that a listener has.

        Raises:
            InvalidArgument: the mechanism is not one of SCRAM's, or the name is not ASCII.
            ConfigError: no listener has the mechanism, so no client could use the password.
        """
        require_text("user", user)
        require_text("password", password)
        known = HASHES.keys()
        if mechanism is not None and (not isinstance(mechanism, str) or mechanism not in known):
            raise InvalidArgument(f"mechanism must be one of {', '.join(known)}")
        if not can_log_in(user):
            raise InvalidArgument(f"user {user!r} could never log in: names in SCRAM are ASCII")
        credentials = self._credentials()
        for usable in self._usable(known if mechanism is None else [mechanism]):
            credentials.set_password(user, usable, password, self._rng)

    def expire_tokens(self, owner: str) -> None:
        """Ends all delegation tokens of the owner, and the connections that logged in with one.

        Raises:
            InvalidArgument: the user has no tokens.
        """
        require_text("owner", owner)
        tokens = self._brokers.live()[0].tokens
        found = [one for one in tokens.all() if one.owner.name == owner] if tokens else []
        if tokens is None or not found:
            raise InvalidArgument(f"user {owner!r} has no delegation tokens")
        for token in found:
            tokens.remove(token.token_id)
        self._log_out(
            lambda one: one.name == owner and one.token_authenticated,
            f"the delegation tokens of {owner} have expired",
        )

    def expire_certificates(self) -> None:
        """Makes the brokers' certificate an expired one, and ends the clients' connections.

        No client can connect until `renew_certificates` or `kafka.reset()`, topic handles included.
        The controller still reaches all brokers, over its own listener.

        Raises:
            ConfigError: the cluster has not made its certificates itself.
        """
        self._use_certificate(expired=True)
        self._log_out(lambda one: one.name != BROKERS_USER, "the broker's certificate has expired")

    def renew_certificates(self) -> None:
        """Gives the brokers a new key and certificate, for connections to come.

        Raises:
            ConfigError: the cluster has not made its certificates itself.
        """
        self._use_certificate(expired=False)

    def _use_certificate(self, *, expired: bool) -> None:
        if self._certificates is None:
            raise ConfigError(
                "the cluster has made no certificates: give it Security with SASL_SSL or SSL, and "
                "no ssl.keystore.location"
            )
        path = str(self._certificates.issue_again(expired=expired))
        known = self._brokers.zk.overrides()
        for broker in self._brokers.live():
            secured = [one for one in broker.listeners.all if one.speaks_tls]
            locations = {
                f"{LISTENER_PREFIX}{one.name.lower()}.ssl.keystore.location": (
                    broker.spec.config.text("ssl.keystore.location")
                    if one.is_control_plane
                    else path
                )
                for one in secured
            }
            name = str(broker.id)
            overrides = {**known.get((BROKERS, name), {}), **locations}
            broker.config.set_overrides(BROKERS, name, overrides)

    def _log_out(self, which: Callable[[KafkaPrincipal], bool], reason: str) -> None:
        for broker in self._brokers.live():
            broker.log_out(which, reason)

    def _credentials(self) -> ScramCredentials:
        self._authentications()
        return ScramCredentials(self._brokers.live()[0].zk)

    def _usable(self, mechanisms: Collection[str]) -> list[str]:
        """Those of the mechanisms that some listener for clients has."""
        listeners = filter(asks_for_sasl, self._brokers.live()[0].listeners.clients)
        (authentication, *_) = self._authentications()
        enabled = {one.name: authentication.mechanisms(one.name) for one in listeners}
        usable = [one for one in mechanisms if any(one in found for found in enabled.values())]
        if not usable:
            has = "; ".join(f"{name} has {', '.join(found)}" for name, found in enabled.items())
            wanted = " or ".join(mechanisms)
            raise ConfigError(f"no listener has {wanted}, so no client could use it: {has}")
        return usable

    def _authentications(self) -> list[Authentication]:
        asking = [
            one for one in self._brokers.live() if any(map(asks_for_sasl, one.listeners.clients))
        ]
        authentications = [one.authentication for one in asking if one.authentication is not None]
        if not authentications:
            raise ConfigError("no listener of the cluster asks for SASL, so clients do not log in")
        return authentications
