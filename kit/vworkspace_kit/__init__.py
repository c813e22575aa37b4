"""A kit for the tests of people who build operators: a cluster in memory, strategies from schemas, laws.

`from vworkspace_kit import laws` brings `laws.hold`.
"""

from vworkspace_kit.strategies import changes_of, objects_of

__all__ = ["changes_of", "objects_of"]
