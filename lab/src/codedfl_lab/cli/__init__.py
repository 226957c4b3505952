"""The laboratory's commands: compare, plan, train, reproduce, fleet, data."""
