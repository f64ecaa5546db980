"""The metadata quorum (KRaft) on one node: its log, its snapshots, its requests and its fetch loop.

The decisions of the protocol are made in `nodes.raft`; what the records mean is decided in
`nodes.metadata` and `nodes.controller`.
"""
