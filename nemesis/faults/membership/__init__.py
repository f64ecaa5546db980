"""Faults of membership and administration: the work of administrators, while other faults happen.

A fault sends the request, checks whether the cluster accepted it and what it did, and reverts it at
the heal. The cluster does the work at its own pace. A request without an answer is recorded as not
accepted.
"""

from nemesis.faults.fault import Fault
from nemesis.faults.membership.brokers import FAULTS as BROKERS
from nemesis.faults.membership.compaction import FAULTS as COMPACTION
from nemesis.faults.membership.configs import FAULTS as CONFIGS
from nemesis.faults.membership.records import FAULTS as RECORDS
from nemesis.faults.membership.replicas import FAULTS as REPLICAS
from nemesis.faults.membership.topics import FAULTS as TOPICS

FAULTS: tuple[Fault, ...] = (*BROKERS, *REPLICAS, *TOPICS, *CONFIGS, *RECORDS, *COMPACTION)
