"""Transactions in one log: their markers, where the undecided part begins, which were aborted, and
which first batches were verified. The transaction coordinator is elsewhere.
"""
