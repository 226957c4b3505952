"""Drivers of the state machines on one machine: a queue, virtual time, secure sums."""
