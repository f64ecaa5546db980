"""Requests whose response is delayed until a condition holds or their time is up, as in Kafka's
purgatory.

The handlers of `nodes.server.requests` and `nodes.server.quorum` decide the condition and write the
response.
"""
