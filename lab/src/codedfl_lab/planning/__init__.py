"""Which scheme, solver and parameters suit a problem and a fleet, and the file that says so."""
