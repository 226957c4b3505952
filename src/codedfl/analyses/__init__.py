"""Analyses: generators that ask for totals of statistics and end in what they say.

Nothing is imported here: they are the server's, and a device derives a run by ``device.study_sums`` alone.
"""
