"""``python -m scarless``: the command line."""

import sys

from scarless.cli import main

if __name__ == "__main__":
    sys.exit(main())
