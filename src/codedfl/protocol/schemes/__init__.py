"""The state machines of each coded scheme: what differs is phase 1."""
