"""The handlers of the requests that a broker serves to clients and to other brokers.

A handler reads the request, asks the replicas or the metadata, and describes the response; the
encoding is in `nodes.wire`.
"""
