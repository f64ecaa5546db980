"""Clusters for tests: real brokers on several kinds of machines, mock brokers, and fake targets."""
