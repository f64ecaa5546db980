"""The clients of a plan's further workloads: groups, copies, transactions.

Each client library has a folder with the same parts.
"""
