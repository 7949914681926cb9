"""`python -m instruct` is the command `instruct`."""

import sys

from instruct.cli import main

sys.exit(main())
