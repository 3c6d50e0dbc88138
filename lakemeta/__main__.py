"""``python -m lakemeta``: the command line (I/O)."""

from lakemeta.cli.main import main

main()
