"""The version of this lakemeta."""

__version__ = "0.1.0"
