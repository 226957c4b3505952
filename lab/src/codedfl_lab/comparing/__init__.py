"""Many schemes, seeds and draws on one fleet: simulations and comparisons, judged in pairs."""
