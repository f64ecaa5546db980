"""The engines that compute frames: DuckDB inside this process, and Spark, behind one interface.

They know nothing of Kafka or of anomalies.
"""
