"""Results for people and machines: a folder of files, tables for the terminal, pictures, verdicts on one page.

Every number shown comes from the results; nothing is computed here but medians over seeds for the curves.
"""
