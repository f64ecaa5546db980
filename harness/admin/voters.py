"""Requests that add and remove voters of the running metadata quorum, one at a time (KIP-853)."""

from uuid import UUID

from kio.schema.errors import ErrorCode

from harness.admin import inspection
from harness.admin.client import CONTROLLER, Address, AdminClient
from harness.admin.codes import check
from harness.admin.errors import RequestRefused

LISTENER = "CONTROLLER"
"""The name of the metadata quorum's listener, as in Kafka's examples."""


async def add(admin: AdminClient, node: int, directory: UUID, address: Address) -> None:
    """Make a controller a voter; return when that is committed.

    `directory` is the directory id in the node's own files, `address` the address of its quorum
    listener. A node that is a voter already is no error, because the answer to an earlier request
    may be lost. But the leader may know the node by a directory that it has lost, and count that as
    the voter: see `directory`. Raises RequestRefused, and TransientError while the node has not
    caught up or another change is in progress.
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
    """Return the directory id with which the node is a voter, from the leader; None for no voter.

    The leader's answer may not be committed yet, and may be lost with the leader. Raises
    RequestRefused with kraft.version 0, where voters have no directory ids and cannot be removed.
    """
    quorum = await inspection.quorum(admin)
    found = next((each for each in quorum.voters if each.node_id == node), None)
    if found is not None and found.directory_id is None:
        raise RequestRefused(ErrorCode.unsupported_version, f"node {node} cannot lose its vote")
    return None if found is None else found.directory_id


async def remove(admin: AdminClient, node: int, directory_id: UUID) -> None:
    """Remove the voter with this directory id; return when that is committed.

    A node that is no voter is no error, because the answer to an earlier request may be lost.
    Raises RequestRefused, TransientError.
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
