"""What people are told of a cluster: how each object stands, what it stands upon, and what would help (SEE-1).

Read from what the objects say of themselves, with or without an operator that runs. Pure: manifests in, data out.
"""
