"""The secure sum: bit for bit the sum of integers, whatever is lost, doubled, late, killed or set back."""
