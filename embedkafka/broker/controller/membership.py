"""Changes of the broker set: brokers that joined, left, or bounced between two reads."""

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
    """Compares the known broker epochs with the registered ones."""
    both = known.keys() & registered.keys()
    return MembershipChange(
        joined=tuple(sorted(registered.keys() - known.keys())),
        gone=tuple(sorted(known.keys() - registered.keys())),
        bounced=tuple(sorted(b for b in both if registered[b] > known[b])),
    )
