"""kafka-python's names, imported once without its warning.

kafka-python 3.0 reads its schemas by a function that Python 3.11 calls deprecated (3.13 does not
any more), at import time only.
"""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.admin import KafkaAdminClient, NewTopic
    from kafka.errors import KafkaError, TopicAlreadyExistsError
    from kafka.record.memory_records import MemoryRecords

__all__ = [
    "KafkaAdminClient",
    "KafkaConsumer",
    "KafkaError",
    "KafkaProducer",
    "MemoryRecords",
    "NewTopic",
    "TopicAlreadyExistsError",
    "TopicPartition",
]
