"""The overview of a cluster for people: the state of each object, what it was made of, and what would help (SEE-1).

It is read from the objects themselves, with or without a running operator. Pure: manifests in, data out.
"""
