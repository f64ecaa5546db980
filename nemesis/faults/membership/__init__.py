"""Faults of membership and administration: what administrators do, done while other things break.

The cluster does the work by itself and at its own pace; a fault gives the order, looks whether it
was taken and what came of it, and takes it back at its heal. An order that nobody answers is
recorded as not taken.
"""

from nemesis.faults.fault import Fault
from nemesis.faults.membership.brokers import FAULTS as BROKERS
from nemesis.faults.membership.replicas import FAULTS as REPLICAS
from nemesis.faults.membership.topics import FAULTS as TOPICS

FAULTS: tuple[Fault, ...] = (*BROKERS, *REPLICAS, *TOPICS)
