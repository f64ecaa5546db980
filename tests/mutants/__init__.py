"""Brokers with one decision broken on purpose: what the checkers are measured by.

Each module overrides one decision of the broker and then runs it:
`python -m tests.mutants.NAME server.properties`. The broker itself knows nothing of them.
"""
