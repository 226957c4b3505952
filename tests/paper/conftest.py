"""The paper's own system to the letter, against plain integers, and the defect that made us leave it."""
