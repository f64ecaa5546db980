"""The running node: it serves Kafka requests, replicates partitions and takes part in the quorum.

The decisions are made by pure code in `nodes.raft`, `nodes.controller` and `nodes.replication`, and
this folder does the input and output.
"""
