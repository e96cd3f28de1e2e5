"""How the set of brokers changed: who joined, who is gone, who came back before that was seen."""

from collections.abc import Mapping

from embedkafka.runtime.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipChange:
    """Broker ids, sorted. A bounced broker has a newer epoch: it died and registered again."""

    joined: tuple[int, ...] = ()
    gone: tuple[int, ...] = ()
    bounced: tuple[int, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.joined or self.gone or self.bounced)


def compare(known: Mapping[int, int], registered: Mapping[int, int]) -> MembershipChange:
    """From the epochs the controller knew to those that are registered now."""
    both = known.keys() & registered.keys()
    return MembershipChange(
        joined=tuple(sorted(registered.keys() - known.keys())),
        gone=tuple(sorted(known.keys() - registered.keys())),
        bounced=tuple(sorted(b for b in both if registered[b] > known[b])),
    )
