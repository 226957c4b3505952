"""A data owner's side: what it approved, its frozen rows and its ledger, as the secure sum asks for them."""
