"""``python -m lakemeta``: the command line."""

from lakemeta.cli.main import main

main()
