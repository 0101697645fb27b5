"""Property tests draw the same examples on every run, so a red run is about the change and not about the draw.

``make test-random`` draws anew; what it finds becomes an explicit example.
"""

import os

from hypothesis import settings

settings.register_profile("fixed", derandomize=True, deadline=None)
settings.register_profile("random", derandomize=False, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))
