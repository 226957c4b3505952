"""A run for people: the fold of its journal, its page, and the server that shows it live."""
