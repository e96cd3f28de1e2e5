"""The states of a warm JVM, as its keeper sees them.

STARTING and IN_USE belong to one session, whose end without a word is the JVM's end too. FREE ends
after some idle time. RETIRING is in use, and has no other session afterwards. ENDING is final.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final

State = Enum("State", "STARTING IN_USE FREE RETIRING ENDING")
Event = Enum("Event", "READY LEASE RETURNED WORN LOST STOP IDLE")

MOST_SESSIONS: Final = 100

#: Beyond these, a JVM holds on to what its sessions used.
_MOST: Final[Mapping[str, int]] = {
    "sessions": MOST_SESSIONS,
    "threads": 300,
    "open files": 2000,
    "MB of classes": 512,
    "percent of the heap": 70,
}

_MOVES: Final[Mapping[tuple[State, Event], State]] = {
    (State.STARTING, Event.READY): State.IN_USE,
    (State.STARTING, Event.LOST): State.ENDING,
    (State.STARTING, Event.STOP): State.ENDING,
    (State.IN_USE, Event.RETURNED): State.FREE,
    (State.IN_USE, Event.WORN): State.ENDING,
    (State.IN_USE, Event.LOST): State.ENDING,
    (State.IN_USE, Event.STOP): State.RETIRING,
    (State.RETIRING, Event.RETURNED): State.ENDING,
    (State.RETIRING, Event.WORN): State.ENDING,
    (State.RETIRING, Event.LOST): State.ENDING,
    (State.RETIRING, Event.STOP): State.RETIRING,
    (State.FREE, Event.LEASE): State.IN_USE,
    (State.FREE, Event.LOST): State.ENDING,
    (State.FREE, Event.STOP): State.ENDING,
    (State.FREE, Event.IDLE): State.ENDING,
    (State.ENDING, Event.STOP): State.ENDING,
    (State.ENDING, Event.LOST): State.ENDING,
}


def move(state: State, event: Event) -> State:
    """The next state. LOST is the end of the session's process, or of the JVM."""
    following = _MOVES.get((state, event))
    if following is None:
        raise ValueError(f"{event.name} cannot happen while {state.name}")
    return following


def find_wear(figures: Mapping[str, int]) -> str | None:
    """Why a JVM that was given back should not have another session."""
    for name, most in _MOST.items():
        if (figure := figures.get(name, 0)) > most:
            return f"{figure} {name}"
    return None
