"""A training on exact sums: ``train`` is the loop, ``in_process`` has all parties of one, ``paced`` their times."""
