"""The gradient code, A B = 1: who answers for whom, masks that cancel in it, malicious devices found by it."""
