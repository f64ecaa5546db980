"""Apache Kafka as the system under test: its jars, its configuration, its command line."""
