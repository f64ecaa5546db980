"""The configuration of one process with the clients of a further workload, which is passed as JSON.

It has the plan's models of workloads. Making them takes a third of the start of a process, so the
processes of topics (`harness.workloads.config`) do without.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter

from harness.plans.app_workload import AppWorkload
from harness.plans.workload_kind import WorkloadKind
from harness.plans.workloads import FurtherWorkload, GroupWorkload
from harness.workloads.config import (
    ACKS_ALL,
    LOOPBACK,
    READ_COMMITTED,
    READ_UNCOMMITTED,
)


@dataclass(frozen=True, kw_only=True)
class FurtherConfig:
    """The clients of one further workload of the plan.

    `workload` is the plan's table. `partitions` has the number of partitions of each topic that the
    workload uses, and `transactional` the topics among them that get records in transactions.
    A workload of another package writes with `topic_acks`, and to `idempotent` topics with
    idempotent producers.
    With `clocks` each instance of a tested program has a wall clock of its own. The program
    runs in the network `namespace`, if there is one, and reaches this process at `address`. For the
    other fields see `ClientConfig`.
    """

    run_id: str
    base_ns: int
    history_dir: str
    first_client: int
    bootstrap: str
    name: str
    workload: Mapping[str, Any]
    partitions: Mapping[str, int]
    transactional: Sequence[str] = ()
    topic_acks: Mapping[str, int] = field(default_factory=dict)
    idempotent: Sequence[str] = ()
    command: Sequence[str] = ()
    drain_ms: int = 5_000
    rotate_s: float | None = None
    clocks: bool = False
    namespace: str | None = None
    address: str = LOOPBACK

    @property
    def acks(self) -> int:
        """What producers wait for: all in-sync replicas."""
        return ACKS_ALL

    def acks_of(self, topic: str) -> int:
        """Return what the producers of a topic wait for."""
        return self.topic_acks.get(topic, ACKS_ALL)

    @property
    def writes(self) -> bool:
        """Whether the process has producers."""
        wanted = self.wanted
        if isinstance(wanted, WorkloadKind):
            return bool(wanted.topics)
        return not isinstance(wanted, GroupWorkload)

    @property
    def app(self) -> AppWorkload | None:
        """The workload, if it is a program that is tested."""
        return self.wanted if isinstance(self.wanted, AppWorkload) else None

    @cached_property
    def wanted(self) -> FurtherWorkload:
        """The workload, validated."""
        return _WORKLOAD.validate_python(self.workload)

    def isolation(self, topic: str) -> int | None:
        """Return the isolation level of the readers of a topic; None: nobody writes transactions to
        it."""
        if topic not in self.transactional:
            return None
        wanted = self.wanted
        early = isinstance(wanted, GroupWorkload) and wanted.isolation == "read_uncommitted"
        return READ_UNCOMMITTED if early else READ_COMMITTED

    def save(self, path: Path) -> None:
        """Write as JSON."""
        path.write_text(json.dumps(asdict(self), indent=2, sort_keys=True) + "\n")


_WORKLOAD: Final[TypeAdapter[FurtherWorkload]] = TypeAdapter(FurtherWorkload)
