"""Who the devices are, how long things take on them, and when an epoch ends."""
