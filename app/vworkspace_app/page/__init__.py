"""The page: the state of everything, in a browser (SEE-3). It is read-only, and loads nothing from other hosts.

`Site` serves what a `Source` shows: the operator's caches (`operator`), a control plane's jobs (`jobs`), a trace
(`trace`).
"""
