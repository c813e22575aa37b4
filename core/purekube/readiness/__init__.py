"""The readiness of an object: one pure answer for any kind (PH-1).

`readiness(manifest)` is decided by the first of: deletion, the observed generation, the rule of the kind
(`table.RULES`), the conventions of kstatus, and existence.
"""

from purekube.readiness.generic import readiness
from purekube.readiness.result import Readiness, State
from purekube.readiness.table import RULES

__all__ = ["RULES", "Readiness", "State", "readiness"]
