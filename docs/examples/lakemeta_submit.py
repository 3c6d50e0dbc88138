"""What spark-submit runs: the lakemeta command line on the driver, with the words behind this script's name."""

import sys

from lakemeta.cli.main import main

sys.exit(main())
