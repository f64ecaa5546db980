"""Kafka's wire protocol: frames, message codecs, connections, TLS and SASL.

This folder knows nothing of brokers: what a request means is decided in `nodes.server`.
"""
