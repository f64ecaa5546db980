"""The clients of a further workload with our own asyncio client."""

import asyncio

from harness.plans.workloads import CopyWorkload, GroupWorkload, TransactionWorkload
from harness.recording.history import OperationWriter
from harness.workloads.clients.counts import Tally
from harness.workloads.environment import ClientEnvironment
from harness.workloads.further.own.copies import run_copies
from harness.workloads.further.own.groups import run_group
from harness.workloads.further.own.transactions import run_transactions
from harness.workloads.further_config import FurtherConfig


async def run_further(
    config: FurtherConfig,
    writer: OperationWriter,
    world: ClientEnvironment,
    stop: asyncio.Event,
    tallies: list[Tally],
) -> None:
    """Run the clients until `stop` is set, then close them.

    A tally of every client is appended to `tallies`. Raises an ExceptionGroup with the error of a
    client; then the other clients are ended.
    """
    match config.wanted:
        case TransactionWorkload() as wanted:
            await run_transactions(config, wanted, writer, world, stop, tallies)
        case GroupWorkload() as wanted:
            await run_group(config, wanted, writer, world, stop, tallies)
        case CopyWorkload() as wanted:
            await run_copies(config, wanted, writer, world, stop, tallies)
