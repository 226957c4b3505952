"""What is added from outside, each one file: it goes wherever ours goes, and no file of ours knows it."""
