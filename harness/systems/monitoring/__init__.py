"""Observing the cluster during a run: leaders, in-sync replicas, end offsets, the metadata quorum.

Whether the observations are correct is left to the checkers.
"""
