"""``python -m scarless.cli``."""

import sys

from scarless.cli import main

sys.exit(main())
