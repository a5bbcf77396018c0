"""`python -m tasor`: the same as the command `tasor`."""

import sys

from tasor.command_line import main

if __name__ == "__main__":
    sys.exit(main())
