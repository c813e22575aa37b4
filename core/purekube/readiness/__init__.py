"""The readiness of an object of any kind, as a pure function of its manifest (PH-1).

`readiness(manifest)` is decided by the first of these that applies: deletion, the observed generation, the rule of the
kind (`RULES`), the conventions of kstatus, and existence.
"""

from purekube.readiness.generic import RULES, readiness
from purekube.readiness.result import Readiness, State

__all__ = ["RULES", "Readiness", "State", "readiness"]
