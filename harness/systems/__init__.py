"""Systems under test: clusters of brokers that the harness deploys, and external clusters.

Machines and processes are left to `harness.targets`, and broker programs to `harness.brokers`.
"""
