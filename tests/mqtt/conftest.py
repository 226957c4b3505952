"""Brokers: what a party may do there, what the connection survives, and what a stranger can hold of it."""
