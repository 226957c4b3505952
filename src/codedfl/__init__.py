"""codedfl."""
