"""Every analysis beside its oracle: a module per family, whose ``lines`` yields the largest difference of each case."""
