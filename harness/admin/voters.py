"""The voters of the metadata quorum, changed one at a time while it runs (KIP-853)."""

from uuid import UUID

from kio.schema.errors import ErrorCode

from harness.admin import inspection
from harness.admin.client import CONTROLLER, Address, AdminClient
from harness.admin.codes import check
from harness.admin.errors import Refused

LISTENER = "CONTROLLER"
"""What the listener of the metadata quorum is called, as in Kafka's examples."""


async def add(admin: AdminClient, node: int, directory: UUID, address: Address) -> None:
    """Give a vote to a controller that follows the quorum from `directory`, as its own files say,
    and serves it at `address`. It is committed then that the node has a vote, whoever asked for it
    first: an answer may have been lost.

    A leader may still know the node by a directory that it lost, and would take that for a voter:
    see `directory`. Raises Refused, Passing while it has not caught up or another change is under
    way.
    """
    host, port = address
    answer = await admin.request(
        "add_raft_voter",
        to=CONTROLLER,
        cluster_id=None,
        timeout=admin.request_timeout,
        voter_id=node,
        voter_directory_id=directory,
        listeners=[{"name": LISTENER, "host": host, "port": port}],
    )
    if answer.error_code is not ErrorCode.duplicate_voter:
        check(answer.error_code, f"node {node}", answer.error_message)


async def directory(admin: AdminClient, node: int) -> UUID | None:
    """Of the disk on which the node has a vote, as far as the leader knows; None without a vote.

    What the leader knows last may not be committed, and be lost with it. Raises Refused where
    votes are for good, because voters are known without their disks (kraft.version 0).
    """
    quorum = await inspection.quorum(admin)
    found = next((each for each in quorum.voters if each.node_id == node), None)
    if found is not None and found.directory_id is None:
        raise Refused(ErrorCode.unsupported_version, f"node {node} has its vote for good")
    return None if found is None else found.directory_id


async def remove(admin: AdminClient, node: int, directory_id: UUID) -> None:
    """Take the vote of a voter on that disk. It is committed then that it has none, whoever asked
    for it first: an answer may have been lost. Raises Refused, Passing.
    """
    answer = await admin.request(
        "remove_raft_voter",
        to=CONTROLLER,
        cluster_id=None,
        voter_id=node,
        voter_directory_id=directory_id,
    )
    if answer.error_code is not ErrorCode.voter_not_found:
        check(answer.error_code, f"node {node}", answer.error_message)
