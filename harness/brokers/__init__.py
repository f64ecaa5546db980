"""Broker programs that the harness can start: the built-in broker and Apache Kafka.

A program knows its configuration and its command; clusters of nodes are left to `harness.systems`.
"""
