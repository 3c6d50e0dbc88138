"""The command line; nothing else of lakemeta imports it."""
