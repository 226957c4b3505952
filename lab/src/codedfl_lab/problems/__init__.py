"""Learning problems: a data set, who holds which of its rows, and the features and labels that are made of them."""
