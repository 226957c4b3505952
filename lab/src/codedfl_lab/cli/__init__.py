"""The laboratory's commands: demo, compare, plan, train, reproduce, privacy, fleet, data."""
