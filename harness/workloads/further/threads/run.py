"""The clients of a further workload in threads."""

from collections.abc import Callable
from typing import assert_never

from harness.plans.app_workload import AppWorkload
from harness.plans.workload_kind import WorkloadKind
from harness.plans.workloads import (
    CompactedWorkload,
    CopyWorkload,
    GroupWorkload,
    TransactionWorkload,
)
from harness.workloads.client_histories import FurtherHistories
from harness.workloads.clients.payload import HEADER_BYTES
from harness.workloads.further.threads.copies import Copiers
from harness.workloads.further.threads.groups import Readers
from harness.workloads.further.threads.library import Library
from harness.workloads.further.threads.transactions import Writers
from harness.workloads.further_config import FurtherConfig
from harness.workloads.threads import Clients


class Further(Clients):
    """See the module."""

    def __init__(
        self, config: FurtherConfig, library: Callable[[FurtherConfig, Clients], Library]
    ) -> None:
        super().__init__(config)
        self._further = config
        self._library = library(config, self)

    def runs(self) -> list[tuple[str, Callable[[], None]]]:
        """See `Clients`."""
        config, wanted, library = self._further, self._further.wanted, self._library
        # They have processes of their own kinds.
        assert not isinstance(wanted, AppWorkload | CompactedWorkload | WorkloadKind)
        size = HEADER_BYTES if isinstance(wanted, GroupWorkload) else wanted.value_bytes
        histories = FurtherHistories(config, self.writer, size)
        match wanted:
            case TransactionWorkload():
                return Writers(config, wanted, library, histories, self.stop, self.tally).runs()
            case GroupWorkload():
                return Readers(config, wanted, library, histories, self.stop, self.tally).runs()
            case CopyWorkload():
                return Copiers(config, wanted, library, histories, self.stop, self.tally).runs()
            case _:
                assert_never(wanted)
