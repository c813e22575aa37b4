"""The page: how everything stands, in a browser (SEE-3). It is read-only, and loads nothing from elsewhere.

`Site` serves what a `Source` shows: the operator's caches (`operator`), a control plane's jobs (`jobs`), a trace
(`trace`).
"""
