"""The names of all invariants, as verdicts, canaries and the zoo use them."""

from typing import Final

INVARIANTS: Final = (
    "a-restart-loses-nothing",
    "acknowledged-is-committed",
    "committed-stays",
    "commits-its-own-epoch",
    "commits-with-enough",
    "dense-offsets",
    "epoch-ends-are-true",
    "epochs-match-batches",
    "epochs-rise",
    "equal-images",
    "flushed-is-on-disk",
    "follower-high-watermark",
    "high-watermark-in-log",
    "high-watermark-rises",
    "indexes-match-batches",
    "isr-has-all-committed",
    "isr-within-replicas",
    "leader-has-all-committed",
    "log-matching",
    "majority-has-committed",
    "no-fenced-member",
    "one-leader",
    "reassigned-in-sync",
    "sequences",
    "settles",
    "undamaged-logs-stay",
    "votes-are-on-disk",
    "votes-stay",
)
