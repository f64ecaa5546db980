"""The workload of a run: client processes that send and read, and the final reads.

Each client library has a module in `clients`, which records every operation in the history.
"""
