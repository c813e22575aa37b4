"""The overview of a cluster for people: the state of each object, the objects created for it, and remedies (SEE-1).

It is computed from the objects themselves, so it works even if no operator runs. Pure: manifests in, data out.
"""
