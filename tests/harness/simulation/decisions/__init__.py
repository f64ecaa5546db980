"""The broker's rewritten decisions."""
