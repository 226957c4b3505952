"""The one place of codedfl's version: the package's metadata, reports and models all read it."""

__version__ = "0.2.0.dev0"
