"""What all tests share: Hypothesis judges laws, not the speed of the machine it runs on.

Where `CI` is set the examples are the same in every run, so that a change is judged by its own merits; everywhere
else each run attacks anew. `HYPOTHESIS_PROFILE=long` (`make test-long`) attacks for as long as it takes.
"""

import os

from hypothesis import settings

settings.register_profile("laws", deadline=None, max_examples=40)
settings.register_profile("ci", deadline=None, max_examples=40, derandomize=True)
settings.register_profile("long", deadline=None, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "laws"))
