"""Analyses beside statsmodels, scipy and scikit-learn: the same findings from sums alone, or why not."""
