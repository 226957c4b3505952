"""A study from its first sum to its findings: rehearsed, served on machines, or in one process for estimators."""
