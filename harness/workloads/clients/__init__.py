"""Producers and consumers of each client library, which record every operation in the history.

What they send, and when, is left to `harness.workloads`.
"""
