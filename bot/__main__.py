"""`python -m pitstop.bot` is `pitstop`."""

import sys

from pitstop.bot.cli import main

sys.exit(main())
