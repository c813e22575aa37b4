"""The examination of any operator that serves this API, from outside (CONF-1): `conformance operator`.

`case` plays Flux, the engines, people and the control plane for one check; `checks` holds the checks, clause by clause.
"""
