"""How replicas of a partition stay the same: decisions only, no I/O."""
