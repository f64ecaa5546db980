"""Golden histories: small runs, each showing one anomaly or coming close to it without."""
