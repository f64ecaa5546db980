"""The shell of the coordinators: a shard for each partition of an internal topic that this broker
leads.

A shard loads its machine from the log, runs operations, and answers when the high watermark covers
what the answers say.
"""
