"""Golden histories of power losses that are hard to tell from others, and near misses of them.

As in `state_losses`, node 1 leads until 9.6 s, when nodes 1 and 2 lose what they had, and the next
leader's epoch starts at offset 10.
"""

from tests.support.histories.golden.base import F, P, golden
from tests.support.histories.golden.state_losses import LOST, read_before
from tests.support.histories.story import ALL, PRODUCER, Story

ID = "writer"


def _followed_by_another(s: Story, committed_s: float, written_s: float, offset: int) -> None:
    """The record at offset 9 is of a transaction, and is lost. The producer's next one, which it
    aborted, began at `offset`."""
    read_before(s, txn=7, transactional_id=ID)
    client = PRODUCER[ALL]
    s.row("init-producer", client, 0.2, transactional_id=ID)
    s.row("commit-transaction", client, committed_s, txn=7, transactional_id=ID)
    more = {"type": "fail", "txn": 8, "transactional_id": ID}
    s.send(ALL, 77, offset, written_s, **more)
    s.row("abort-transaction", client, written_s + 0.2, txn=8, transactional_id=ID)


@golden("VALID", {LOST: (P, 1)}, cause="lost power by 9.600 s")
def next_transaction_begins_where_the_lost_marker_was(s: Story) -> None:
    """The next leader wrote it there: its marker ended both."""
    _followed_by_another(s, committed_s=8, written_s=16.2, offset=10)


@golden("INVALID", {LOST: (F, 1)})
def next_transaction_was_there_before_the_power_loss(s: Story) -> None:
    """Near miss: the marker was below it, and so below all that was lost."""
    _followed_by_another(s, committed_s=6, written_s=7, offset=10)


@golden("INVALID", {LOST: (F, 1)})
def next_transaction_begins_below_what_was_lost(s: Story) -> None:
    """Near miss: the loss took nothing below offset 11, whenever the marker was written."""
    _followed_by_another(s, committed_s=8, written_s=9.2, offset=10)
    [_, second] = [r for r in s.cluster if r["kind"] == "epoch" and r["topic"] == ALL]
    second["start_offset"] = 11
    s.file_by_epochs(ALL)
