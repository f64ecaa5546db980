"""The roles of a quorum member, and which may follow which.

UNATTACHED   a voter that knows the epoch, but neither leader nor candidate
VOTED        gave its vote in this epoch (possibly to itself, in a round it lost)
FOLLOWER     fetches from the epoch's leader
PROSPECTIVE  asks whether it would be elected (pre-vote); the epoch stays as it is (KIP-996)
CANDIDATE    stands for election in an epoch of its own
LEADER       appends, and serves fetches
RESIGNED     led this epoch, and never will again (KAFKA-10527)
OBSERVER     not a voter by its own log: fetches, never stands for election; it may grant a vote to
             a candidate whose log says that it is one (KIP-853)

A voter set read from the log makes an observer of any voter, and a voter of an observer.
"""

from collections.abc import Mapping
from enum import Enum, auto
from types import MappingProxyType


class Role(Enum):
    """See the module's table."""

    UNATTACHED = auto()
    VOTED = auto()
    FOLLOWER = auto()
    PROSPECTIVE = auto()
    CANDIDATE = auto()
    LEADER = auto()
    RESIGNED = auto()
    OBSERVER = auto()


# A newer epoch makes any voter UNATTACHED or FOLLOWER. RESIGNED is also where a voter ends that is
# told by others that it leads: it did, in an earlier life. A new voter set may make it an OBSERVER.
_ALWAYS = frozenset({Role.UNATTACHED, Role.FOLLOWER, Role.OBSERVER})

TRANSITIONS: Mapping[Role, frozenset[Role]] = MappingProxyType(
    {
        Role.UNATTACHED: _ALWAYS | {Role.VOTED, Role.PROSPECTIVE, Role.RESIGNED},
        Role.VOTED: _ALWAYS | {Role.VOTED, Role.PROSPECTIVE, Role.RESIGNED},
        Role.FOLLOWER: _ALWAYS | {Role.PROSPECTIVE},
        Role.PROSPECTIVE: _ALWAYS | {Role.VOTED, Role.CANDIDATE, Role.RESIGNED},
        Role.CANDIDATE: _ALWAYS | {Role.VOTED, Role.LEADER, Role.RESIGNED},
        Role.LEADER: _ALWAYS | {Role.RESIGNED},
        Role.RESIGNED: _ALWAYS | {Role.PROSPECTIVE, Role.RESIGNED},
        Role.OBSERVER: _ALWAYS | {Role.VOTED, Role.RESIGNED},
    }
)
