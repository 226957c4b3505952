"""Many schemes, seeds and draws: comparisons, plans, the paper's claims and figures."""
