"""What all tests share: Hypothesis judges laws, not the speed of the machine it runs on."""

from hypothesis import settings

settings.register_profile("laws", deadline=None)
settings.load_profile("laws")
