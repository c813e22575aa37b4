"""The examination of any operator that serves this API, from outside (CONF-1): `conformance operator`.

The control plane is the server that offers jobs to the operator. The API has the kinds ApplicationInstance, Operation
and Cluster. A clause is a numbered requirement of the specification. `case` simulates Flux, the engines, users and the
control plane for one check; `checks` has the checks, clause by clause.
"""
