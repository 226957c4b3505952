"""What every engine for real machines shares: letters, state on disk, keys, the conductor of a run."""
