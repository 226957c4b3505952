"""Flower's own strategies on the linear model of the codedfl app."""
