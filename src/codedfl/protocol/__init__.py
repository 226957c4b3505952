"""The two phases as state machines without I/O (paper IV-B and IV-C)."""
