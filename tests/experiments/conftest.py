"""The experiments that documents quote, on small made-up inputs with an oracle of their own."""
