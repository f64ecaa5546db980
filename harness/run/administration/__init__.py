"""The administrative requests that faults make, carried out and undone while the cluster is broken.

Kafka's administrative protocol is left to `harness.admin`, and the faults to `nemesis`.
"""
