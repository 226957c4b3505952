"""Benchmarks of others, beside what they published: ``python -m experiments.benchmarks`` (``make benchmarks``)."""
