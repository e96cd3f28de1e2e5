"""The keys of listeners, TLS, SASL, authorization, delegation tokens and client quotas.

Names, types, defaults and limits are Kafka's. Those that have no effect are in `inert`.
Not here: settings for one listener (`listener.name.<listener>.<key>`), which take a limit, or
any SSL or SASL key, after the prefix.
"""

from typing import Final

from embedkafka.protocol.wire_types import MAX_INT
from embedkafka.server.config.definition import (
    CLUSTER_WIDE,
    PER_BROKER,
    ConfigKey,
    ConfigValue,
    at_least,
    between,
    boolean_key,
    class_key,
    distinct,
    double_key,
    int_key,
    list_key,
    long_key,
    one_of,
    password_key,
    short_key,
    string_key,
)

OFFERED_TLS: Final = ("TLSv1.2", "TLSv1.3")

_LISTENERS: Final = (
    list_key("early.start.listeners", None, distinct),
    string_key("inter.broker.listener.name", None),
    string_key(
        "listener.security.protocol.map",
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
    ),
    int_key("max.connection.creation.rate", MAX_INT, at_least(0), update=CLUSTER_WIDE),
    int_key("max.connections", MAX_INT, at_least(0), update=CLUSTER_WIDE),
    string_key(
        "security.inter.broker.protocol",
        "PLAINTEXT",
        one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    ),
    string_key("security.providers", None),
)

_SSL: Final = (
    boolean_key("ssl.allow.dn.changes", False),
    boolean_key("ssl.allow.san.changes", False),
    list_key("ssl.cipher.suites", (), distinct, update=PER_BROKER),
    string_key(
        "ssl.client.auth", "none", one_of("required", "requested", "none"), update=PER_BROKER
    ),
    list_key("ssl.enabled.protocols", OFFERED_TLS, distinct, update=PER_BROKER),
    string_key("ssl.endpoint.identification.algorithm", "https", update=PER_BROKER),
    class_key("ssl.engine.factory.class", None, update=PER_BROKER),
    password_key("ssl.key.password", update=PER_BROKER),
    string_key("ssl.keymanager.algorithm", "SunX509", update=PER_BROKER),
    password_key("ssl.keystore.certificate.chain", update=PER_BROKER),
    password_key("ssl.keystore.key", update=PER_BROKER),
    string_key("ssl.keystore.location", None, update=PER_BROKER),
    password_key("ssl.keystore.password", update=PER_BROKER),
    string_key("ssl.keystore.type", "JKS", update=PER_BROKER),
    string_key("ssl.principal.mapping.rules", "DEFAULT"),
    string_key("ssl.protocol", "TLSv1.3", update=PER_BROKER),
    string_key("ssl.provider", None, update=PER_BROKER),
    string_key("ssl.secure.random.implementation", None, update=PER_BROKER),
    string_key("ssl.trustmanager.algorithm", "PKIX", update=PER_BROKER),
    password_key("ssl.truststore.certificates", update=PER_BROKER),
    string_key("ssl.truststore.location", None, update=PER_BROKER),
    password_key("ssl.truststore.password", update=PER_BROKER),
    string_key("ssl.truststore.type", "JKS", update=PER_BROKER),
)

_SASL: Final = (
    int_key("connection.failed.authentication.delay.ms", 100, at_least(0)),
    long_key("connections.max.reauth.ms", 0),
    class_key("sasl.client.callback.handler.class", None),
    list_key("sasl.enabled.mechanisms", ("GSSAPI",), distinct, update=PER_BROKER),
    password_key("sasl.jaas.config", update=PER_BROKER),
    string_key("sasl.kerberos.kinit.cmd", "/usr/bin/kinit", update=PER_BROKER),
    long_key("sasl.kerberos.min.time.before.relogin", 60_000, update=PER_BROKER),
    list_key("sasl.kerberos.principal.to.local.rules", ("DEFAULT",), distinct, update=PER_BROKER),
    string_key("sasl.kerberos.service.name", None, update=PER_BROKER),
    double_key("sasl.kerberos.ticket.renew.jitter", 0.05, update=PER_BROKER),
    double_key("sasl.kerberos.ticket.renew.window.factor", 0.8, update=PER_BROKER),
    class_key("sasl.login.callback.handler.class", None),
    class_key("sasl.login.class", None),
    int_key("sasl.login.connect.timeout.ms", None),
    int_key("sasl.login.read.timeout.ms", None),
    short_key("sasl.login.refresh.buffer.seconds", 300, update=PER_BROKER),
    short_key("sasl.login.refresh.min.period.seconds", 60, update=PER_BROKER),
    double_key("sasl.login.refresh.window.factor", 0.8, update=PER_BROKER),
    double_key("sasl.login.refresh.window.jitter", 0.05, update=PER_BROKER),
    long_key("sasl.login.retry.backoff.max.ms", 10_000),
    long_key("sasl.login.retry.backoff.ms", 100),
    string_key("sasl.mechanism.controller.protocol", "GSSAPI"),
    string_key("sasl.mechanism.inter.broker.protocol", "GSSAPI", update=PER_BROKER),
    string_key("sasl.oauthbearer.assertion.algorithm", "RS256", one_of("ES256", "RS256")),
    string_key("sasl.oauthbearer.assertion.claim.aud", None),
    int_key("sasl.oauthbearer.assertion.claim.exp.seconds", 300, between(0, 86_400)),
    string_key("sasl.oauthbearer.assertion.claim.iss", None),
    boolean_key("sasl.oauthbearer.assertion.claim.jti.include", False),
    int_key("sasl.oauthbearer.assertion.claim.nbf.seconds", 60, between(0, 3600)),
    string_key("sasl.oauthbearer.assertion.claim.sub", None),
    string_key("sasl.oauthbearer.assertion.file", None),
    string_key("sasl.oauthbearer.assertion.private.key.file", None),
    password_key("sasl.oauthbearer.assertion.private.key.passphrase"),
    string_key("sasl.oauthbearer.assertion.template.file", None),
    string_key("sasl.oauthbearer.client.credentials.client.id", None),
    password_key("sasl.oauthbearer.client.credentials.client.secret"),
    int_key("sasl.oauthbearer.clock.skew.seconds", 30),
    list_key("sasl.oauthbearer.expected.audience", (), distinct),
    string_key("sasl.oauthbearer.expected.issuer", None),
    long_key("sasl.oauthbearer.jwks.endpoint.refresh.ms", 3_600_000),
    long_key("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", 10_000),
    long_key("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", 100),
    string_key("sasl.oauthbearer.jwks.endpoint.url", None),
    class_key(
        "sasl.oauthbearer.jwt.retriever.class",
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
    ),
    class_key(
        "sasl.oauthbearer.jwt.validator.class",
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
    ),
    string_key("sasl.oauthbearer.scope", None),
    string_key("sasl.oauthbearer.scope.claim.name", "scope"),
    string_key("sasl.oauthbearer.sub.claim.name", "sub"),
    string_key("sasl.oauthbearer.token.endpoint.url", None),
    class_key("sasl.server.callback.handler.class", None),
    int_key("sasl.server.max.receive.size", 524_288),
)

_AUTHORIZERS: Final = (
    "kafka.security.authorizer.AclAuthorizer",
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
)


def _kafkas_authorizer(value: ConfigValue) -> str | None:
    """Accepts the authorizers of Kafka itself, which decide alike, and so does ours."""
    if not value or value in _AUTHORIZERS:
        return None
    return f"a Java class cannot run in Python; use {' or '.join(_AUTHORIZERS)}"


_AUTHORIZATION: Final = (
    boolean_key("allow.everyone.if.no.acl.found", False),
    string_key("authorizer.class.name", "", _kafkas_authorizer),
    class_key(
        "principal.builder.class",
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
        update=PER_BROKER,
    ),
    string_key("super.users", ""),
)

_DELEGATION_TOKENS: Final = (
    long_key("delegation.token.expiry.check.interval.ms", 3_600_000, at_least(1)),
    long_key("delegation.token.expiry.time.ms", 86_400_000, at_least(1)),
    password_key("delegation.token.master.key"),
    long_key("delegation.token.max.lifetime.ms", 604_800_000, at_least(1)),
    password_key("delegation.token.secret.key"),
)

_QUOTAS: Final = (
    class_key("client.quota.callback.class", None),
    int_key("controller.quota.window.num", 11, at_least(1)),
    int_key("controller.quota.window.size.seconds", 1, at_least(1)),
    int_key("quota.window.num", 11, at_least(1)),
    int_key("quota.window.size.seconds", 1, at_least(1)),
)

SECURITY_KEYS: Final[tuple[ConfigKey, ...]] = (
    *_LISTENERS,
    *_SSL,
    *_SASL,
    *_AUTHORIZATION,
    *_DELEGATION_TOKENS,
    *_QUOTAS,
)
