"""What the server does with exact products X'X e."""
