"""The one place of codedfl's version: the package's metadata, reports and models all read it."""

__version__ = "0.4.0"
