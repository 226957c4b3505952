"""One file a scheme."""
