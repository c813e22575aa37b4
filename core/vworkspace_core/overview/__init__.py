"""The overview of a cluster for people: the state of each object, the objects created for it, and the remedy (SEE-1).

It is read from the objects themselves, with or without a running operator. Pure: manifests in, data out.
"""
