"""Requests to the group coordinator: offsets, administration, and the protocols of groups.

A handler turns a request into an operation of the group's shard, and its answer into a response.
"""
