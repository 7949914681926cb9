"""`python -m instruct` is the command `instruct`."""

import sys

from instruct.command.main import main

sys.exit(main())
