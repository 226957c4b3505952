"""The paper's claims and figures, the journal version's, and what noise costs: measured again."""
