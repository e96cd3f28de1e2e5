"""Settings with which brokers log in to each other's control plane, where they would be anonymous.

Kafka's control plane asks for CLUSTER_ACTION. With an authorizer, the brokers therefore need names,
also if all clients are anonymous: otherwise a client could do there what brokers may do. An
administrator of Kafka gives `control.plane.listener.name` a protocol with SASL; this does the same.
"""

import random
from collections.abc import Iterable, Mapping
from typing import Final

from embedkafka.broker.settings.broker import parse_broker_settings
from embedkafka.broker.settings.listener_keys import LISTENER_PREFIX
from embedkafka.broker.settings.listeners import CONTROL_LISTENER, PLAINTEXT, plan_listeners

_PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"


def control_plane_settings(given: Mapping[str, object]) -> dict[str, object]:
    """Settings to add; none without an authorizer, or if brokers have names already.

    Settings that name a control plane, or give it a protocol, are left alone.
    """
    if not given.get("authorizer.class.name") or given.get("control.plane.listener.name"):
        return {}
    planned = plan_listeners(parse_broker_settings(given))
    protocols = str(given.get("listener.security.protocol.map") or "")
    names = {item.partition(":")[0].strip().upper() for item in protocols.split(",")}
    if CONTROL_LISTENER in names or not _is_anonymous(planned.control.protocol, given):
        return {}
    protocol = "SASL_SSL" if planned.control.speaks_tls else "SASL_PLAINTEXT"
    # No client can have this name by chance, whichever way clients of other listeners get theirs.
    user, password = f"embedkafka-{new_secret()}", new_secret()
    login = f'{_PLAIN_MODULE} required username="{user}" password="{password}"'
    prefix = f"{LISTENER_PREFIX}{CONTROL_LISTENER.lower()}"
    others = [f"{one.name}:{one.protocol}" for one in planned.clients]
    return {
        "listener.security.protocol.map": ",".join([*others, f"{CONTROL_LISTENER}:{protocol}"]),
        f"{prefix}.sasl.enabled.mechanisms": "PLAIN",
        f"{prefix}.sasl.mechanism.inter.broker.protocol": "PLAIN",
        f"{prefix}.plain.sasl.jaas.config": f'{login} user_{user}="{password}";',
        "super.users": join_super_users(given, [user]),
    }


def new_secret() -> str:
    """Drawn apart from the cluster's other choices: clients see those, and may know the seed."""
    return f"{random.Random().getrandbits(128):032x}"


def join_super_users(given: Mapping[str, object], users: Iterable[str]) -> str:
    """The value of `super.users` that adds `users` to those that are given."""
    named = str(given.get("super.users") or "")
    return ";".join([*filter(None, [named]), *(f"User:{user}" for user in users)])


def _is_anonymous(protocol: str, given: Mapping[str, object]) -> bool:
    """Whether brokers have no name on a listener of this protocol."""
    if protocol != "SSL":
        return protocol == PLAINTEXT
    settings = [value for name, value in given.items() if name.endswith("ssl.client.auth")]
    return all(value in (None, "none") for value in settings)
