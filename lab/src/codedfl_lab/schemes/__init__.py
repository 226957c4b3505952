"""The schemes that train in exact sums: the paper's, coded keys, and role keys; ``registry`` finds those of others."""
