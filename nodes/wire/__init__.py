"""Kafka's wire protocol: frames, message codecs, connections. No broker logic."""
