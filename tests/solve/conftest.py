"""Solvers against closed forms, on every table that comes with scikit-learn, and across interruptions."""
