"""What is asked of a cluster at rest: all faults are healed, nobody writes, and all replicas are in
sync. Nothing else is wrong then, so answers and times can be judged exactly."""
