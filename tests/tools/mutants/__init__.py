"""Automatic mutants of the broker's decisions, and what finds them."""
