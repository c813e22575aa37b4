"""The web page of the operator, which shows the state of all objects in a browser (SEE-3).

The page is read-only, and loads nothing from other hosts. `Site` serves the screens of a source: the operator's caches
(`operator_page`), a control plane's jobs (`jobs_page`), or a recorded trace (`drawing`).
"""
