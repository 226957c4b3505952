"""A Flower app of codedfl: it takes part in the study that its configuration names, and in nothing else."""
