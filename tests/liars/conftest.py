"""An adversary with any server and z devices: all that it can compute is sums over whole groups, by linear algebra."""
