"""The gradient code, its masks and its quorum, against brute force over every small code and set of liars."""
