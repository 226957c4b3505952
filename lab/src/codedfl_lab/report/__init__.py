"""Comparisons and plans for people: a folder of files, tables, pictures, verdicts on one page."""
