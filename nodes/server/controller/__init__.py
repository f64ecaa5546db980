"""The controller on a node: it appends the decisions to the metadata log and answers after commit.

The decisions themselves are pure functions in `nodes.controller`.
"""
