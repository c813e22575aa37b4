"""The readiness of an object: one pure answer for any kind (PH-1).

`readiness(manifest)` is decided by the first of: deletion, the observed generation, the rule of the kind
(`table.RULES`), the conventions of kstatus, and existence.
"""

from purekube.readiness.generic import RULES, readiness
from purekube.readiness.result import Readiness, State

__all__ = ["RULES", "Readiness", "State", "readiness"]
