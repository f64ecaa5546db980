"""The voters of the metadata quorum, changed one at a time while it runs (KIP-853)."""

from uuid import UUID

from harness.admin import inspection
from harness.admin.client import CONTROLLER, Address, AdminClient
from harness.admin.codes import check

LISTENER = "CONTROLLER"
"""What the listener of the metadata quorum is called, as in Kafka's examples."""


async def add(admin: AdminClient, node: int, directory: UUID, address: Address) -> None:
    """Give a vote to a controller that follows the quorum from `directory`, as its own files say,
    and serves it at `address`.

    A leader may still know the node by a directory that it lost, and would take that for a voter:
    a quorum with voters that nobody is can lose its majority. Raises Refused, Passing while it has
    not caught up or another change is under way.
    """
    quorum = await inspection.quorum(admin)
    if any(voter.node_id == node for voter in quorum.voters):
        return
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
    check(answer.error_code, f"node {node}", answer.error_message)


async def remove(admin: AdminClient, node: int) -> None:
    """Take a voter's vote; nothing happens where it has none. Raises Refused, Passing."""
    quorum = await inspection.quorum(admin)
    found = next((each for each in quorum.voters if each.node_id == node), None)
    if found is None:
        return
    answer = await admin.request(
        "remove_raft_voter",
        to=CONTROLLER,
        cluster_id=None,
        voter_id=node,
        voter_directory_id=found.directory_id,
    )
    check(answer.error_code, f"node {node}", answer.error_message)
