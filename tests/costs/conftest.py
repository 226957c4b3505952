"""What devices do before and in an epoch is what the costs of the simulation charge: counted in runs, call by call."""
