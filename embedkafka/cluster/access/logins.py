"""`kafka.logins`: credentials, tokens and certificates, changed while clients use them."""

import random
from collections.abc import Callable, Sequence

from embedkafka.cluster.access.security import BROKERS_USER, MadeCertificates
from embedkafka.cluster.brokers import Brokers
from embedkafka.runtime.arguments import require_text
from embedkafka.runtime.failures import ConfigError, InvalidArgument
from embedkafka.security.credentials import ScramCredentials
from embedkafka.security.principals import KafkaPrincipal
from embedkafka.security.sasl.scram_credentials import HASHES, can_log_in
from embedkafka.server.authentication import Authentication
from embedkafka.server.broker import Broker
from embedkafka.server.config.dynamic import BROKERS
from embedkafka.server.config.listener_keys import LISTENER_PREFIX


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
        of the test and `kafka.reset()` give the credentials back.

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

    def set_password(self, user: str, password: str, mechanism: str = "SCRAM-SHA-512") -> None:
        """Gives a user, known or new, a credential of SCRAM for this password.

        Raises:
            InvalidArgument: the mechanism is not one of SCRAM's, or the name is not ASCII.
        """
        require_text("user", user)
        require_text("password", password)
        if not isinstance(mechanism, str) or mechanism not in HASHES:
            raise InvalidArgument(f"mechanism must be one of {', '.join(HASHES)}")
        if not can_log_in(user):
            raise InvalidArgument(f"user {user!r} could never log in: names in SCRAM are ASCII")
        self._credentials().set_password(user, mechanism, password, self._rng)

    def expire_tokens(self, owner: str) -> None:
        """Ends all delegation tokens of the owner, and the connections that logged in with one.

        Raises:
            InvalidArgument: the user has no tokens.
        """
        require_text("owner", owner)
        tokens = self._running()[0].tokens
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
        for broker in self._running():
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
        for broker in self._running():
            broker.log_out(which, reason)

    def _running(self) -> Sequence[Broker]:
        return [handle.require_broker() for handle in self._brokers.running()]

    def _credentials(self) -> ScramCredentials:
        self._authentications()
        return ScramCredentials(self._running()[0].zk)

    def _authentications(self) -> list[Authentication]:
        found = [one.authentication for one in self._running()]
        authentications = [one for one in found if one is not None]
        if not authentications:
            raise ConfigError("no listener of the cluster asks for SASL, so clients do not log in")
        return authentications
