"""What faults order of the cluster, and how it gets done under faults."""
