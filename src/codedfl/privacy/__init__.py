"""What each party and each collusion can compute, by linear algebra; and how much noise hides a row."""
