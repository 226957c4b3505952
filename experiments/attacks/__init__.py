"""Attacks on the schemes, one file each, on what a party really sees (``experiments.views``)."""
