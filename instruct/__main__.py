"""The command `instruct`, and `python -m instruct`."""

import signal
import sys


def main() -> int:
    """The entry point of the console script: Ctrl-C ends it without a traceback, also while it loads and exits."""
    watched = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # else it is ignored, as after nohup
    if watched:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from instruct.base.interrupts import INTERRUPTED
    from instruct.command.main import main

    try:
        code = main()
    except KeyboardInterrupt:  # when the work is done
        code = INTERRUPTED
    if watched:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    return code


if __name__ == "__main__":
    sys.exit(main())
