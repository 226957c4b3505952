"""What a device adds up: exact, the same however rows are dealt out, and of nothing but the study's own asks."""
