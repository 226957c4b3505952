"""The package beside the specification and other languages: every reply byte for byte, also to spoiled requests."""
