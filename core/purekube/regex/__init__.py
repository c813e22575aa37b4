"""Regular expressions of RE2's syntax in time linear in the text: no pattern hangs.

Python's own engine tries alternatives one after the other and takes exponential time for patterns such as `(a+)+$`.
Here a pattern becomes an automaton whose states are all followed at once. The syntax is that of RE2 without Unicode
classes.
"""

from purekube.regex.match import Pattern, compile_pattern
from purekube.regex.regex_syntax import PatternError

__all__ = ["Pattern", "PatternError", "compile_pattern"]
