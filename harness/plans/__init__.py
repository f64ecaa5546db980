"""From a plan to what a run does: read, checked, made ready, shown, repeated."""
