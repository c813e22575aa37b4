"""Regular expressions in RE2's syntax, matched in time linear in the text, so that no pattern hangs.

Python's own engine tries alternatives one after the other, which takes exponential time for patterns such as `(a+)+$`.
Here a pattern becomes an automaton, all of whose possible states are followed at once. The syntax is that of RE2
without Unicode classes.
"""

from purekube.regex.match import Pattern, compile_pattern
from purekube.regex.regex_syntax import PatternError

__all__ = ["Pattern", "PatternError", "compile_pattern"]
