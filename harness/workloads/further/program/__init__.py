"""Members and transactional producers of programs, see `harness.workloads.further.threads`."""
