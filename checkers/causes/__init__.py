"""Recorded events that can explain an anomaly: elections, lost state, faults, producer epochs.

The modules find the causes and match them with evidence. The contract decides whether a cause
permits the anomaly.
"""
