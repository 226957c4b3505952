"""The schemes that are compared: the same model, and times held to their authors' formulas and programs."""
