"""The roles of a quorum member, and which may follow which.

UNATTACHED   a voter that knows the epoch, but no leader, and has not voted
VOTED        has voted in this epoch (possibly for itself, in a round that it lost)
FOLLOWER     fetches from the epoch's leader
PROSPECTIVE  asks whether it would be elected (pre-vote), without a new epoch (KIP-996)
CANDIDATE    requests votes in a new epoch
LEADER       appends, and serves fetches
RESIGNED     led this epoch, and never will again (KAFKA-10527)
OBSERVER     not a voter according to its own log: it fetches and never starts an election; it may
             vote for a candidate whose log has it as a voter (KIP-853)

A voter set read from the log can make an observer of any voter, and a voter of an observer.
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


# A newer epoch makes any voter UNATTACHED or FOLLOWER. A restarted voter becomes RESIGNED if others
# name it as the leader: it led before its restart. A new voter set may make it an OBSERVER.
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
