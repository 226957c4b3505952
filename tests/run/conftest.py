"""Studies from tables to findings in one process: rehearsals, estimators, later groups, noise, many devices."""
