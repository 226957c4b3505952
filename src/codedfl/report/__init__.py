"""For people: a run by its event log, live and kept, and what a study leaves behind for a paper."""
