"""The examination of operators as black boxes: a proxy that records and disturbs requests, the process, and verdicts.

Nothing here knows a kind: `controller_checks` has the checks for controllers of every kind, and a program with kinds of
its own adds checks to the same `Examination`.
"""
