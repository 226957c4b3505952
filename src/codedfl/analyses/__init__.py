"""Analyses: generators that ask for totals of statistics and end in what they say.

Nothing is imported here: a device plans runs (``study_plan``) and loads no analysis.
"""
