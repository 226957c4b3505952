"""The paper's schemes as requests and replies: sums of plain integers, whoever is late, silent or restarted."""
