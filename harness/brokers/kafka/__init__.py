"""Apache Kafka as a broker program: where its jars are, its configuration and its command line.

Machines, processes and files on disks are left to `harness.targets` and `harness.systems`.
"""
