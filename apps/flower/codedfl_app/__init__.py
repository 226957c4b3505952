"""A Flower app of codedfl: the data sets of the package, or a folder of files on each node."""
