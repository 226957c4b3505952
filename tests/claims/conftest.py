"""What the paper claims of the laboratory's schemes: the centralised model bit for bit, and totals alone seen."""
