"""`kafka.acls`: the cluster's ACLs, changed without a client, and what they refused."""

from collections.abc import Iterable, Sequence
from typing import Final

from embedkafka.cluster.brokers import Brokers
from embedkafka.runtime.arguments import require_list, shown
from embedkafka.runtime.failures import ConfigError, InvalidArgument
from embedkafka.security.acl.acls import Acl
from embedkafka.security.acl.authorizer import AclAuthorizer, Refusal

_EXAMPLE: Final = '[Acl.allow("job", "READ", topic="orders")]'


class Acls:
    """Who may do what. A change is in force on every running broker when its call returns.

        kafka.acls.remove(Acl.allow("job", "READ", topic="orders"))     # while the job runs

    It needs no permission: use it to prepare a test, or to take a permission from a running job.
    """

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers

    def all(self) -> list[Acl]:
        """Every ACL, sorted."""
        return sorted(self._authorizers()[0].acls(), key=str)

    def add(self, *acls: Acl) -> None:
        """Adds `acls`; those that exist are fine."""
        self._change(added=_require_acls(acls))

    def remove(self, *acls: Acl) -> None:
        """Removes `acls`.

        Raises:
            InvalidArgument: there is no such ACL, so removing it would change nothing.
        """
        missing = [acl for acl in _require_acls(acls) if acl not in self.all()]
        if missing:
            shown = "; ".join(map(str, missing))
            raise InvalidArgument(f"there is no ACL {shown}. There are: {self._shown()}")
        self._change(removed=acls)

    def replace(self, acls: Iterable[Acl]) -> None:
        """Makes `acls` the only ones."""
        wanted = set(_require_acls(require_list("acls", acls, _EXAMPLE)))
        self._change(added=wanted, removed=set(self.all()) - wanted)

    def refusals(self) -> list[Refusal]:
        """What clients were not allowed to do, as each broker's latest refusals tell."""
        return [refusal for one in self._authorizers() for refusal in one.refusals()]

    def _change(self, *, added: Iterable[Acl] = (), removed: Iterable[Acl] = ()) -> None:
        first, *others = self._authorizers()
        first.create(added)
        first.delete(set(removed))
        for authorizer in others:
            authorizer.reload()

    def _authorizers(self) -> Sequence[AclAuthorizer]:
        found = [broker.authorizer for broker in self._brokers.live()]
        authorizers = [authorizer for authorizer in found if authorizer is not None]
        if not authorizers:
            raise ConfigError(
                "the cluster has no authorizer: set authorizer.class.name to "
                "kafka.security.authorizer.AclAuthorizer"
            )
        return authorizers

    def _shown(self) -> str:
        return "; ".join(map(str, self.all())) or "none"


def _require_acls(acls: Iterable[object]) -> list[Acl]:
    found: list[Acl] = []
    for acl in acls:
        if not isinstance(acl, Acl):
            raise InvalidArgument(
                f'each must be an Acl such as Acl.allow("job", "READ", topic="orders"), '
                f"got {shown(acl)}"
            )
        found.append(acl)
    return found
