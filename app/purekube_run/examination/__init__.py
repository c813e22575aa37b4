"""The examination of operators as black boxes, through a proxy that records and disturbs their requests.

Nothing here depends on a kind: `controller_checks` has the checks for controllers of every kind, and a program with
kinds of its own adds checks to the same `Examination`.
"""
