"""Damaged input of every kind ends in a documented error, within bounds of memory and time."""
