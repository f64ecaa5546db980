"""Helpers for tests of clients: recorded rows, scripted brokers, simulated worlds."""
