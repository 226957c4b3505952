"""How much noise hides a row, what it costs, and what all approvals together may cost."""
