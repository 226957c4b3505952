"""What each party and each collusion of a scheme can compute, by linear algebra."""
