"""The active controller's decisions: which metadata records an operation of a broker or client
makes.

It does no I/O: `nodes.server.controller` appends the records and answers after their commit.
"""
