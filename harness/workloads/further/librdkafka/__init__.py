"""librdkafka's members and transactional producers, see `harness.workloads.further.threads`."""
