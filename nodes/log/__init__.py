"""A partition's log in Kafka's file format: batches, segments, indexes, recovery.

Who may append, and which records are committed, is decided by `nodes.replication` and `nodes.raft`.
"""
