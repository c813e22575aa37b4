"""What all tests share: Hypothesis judges laws, not the speed of the machine it runs on.

Where `CI` is set the examples are the same in every run, so that a change is judged by its own merits; everywhere
else each run attacks anew.
"""

import os

from hypothesis import settings

settings.register_profile("laws", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "laws")
