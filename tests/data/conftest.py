"""From raw rows to features and back: against scikit-learn's numbers, within public bounds, refused where unusable."""
