"""Writing a study: a first draft with a reason for every choice, formulas, and what a table is like in it."""
