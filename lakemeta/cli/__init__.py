"""The command line (I/O); nothing else of lakemeta imports it."""
