"""What each party and each collusion can compute, by linear algebra."""
