"""A run for people: the fold of its event log, its page, and the server that shows it live."""
