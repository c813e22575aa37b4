"""The examination of operators from outside: a proxy that records and disturbs, a process under test, verdicts.

Nothing here knows a kind: `controller_checks` has the checks for controllers of every kind, and a program with kinds of
its own adds checks to the same `Examination`.
"""
