"""Groups, copies and transactions with librdkafka, each client in a thread."""
