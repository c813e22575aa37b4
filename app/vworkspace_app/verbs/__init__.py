"""The commands by which users act on objects: retry, suspend, resume, cancel and approve; and the command `logs`.

An action sets annotations and fields of an object.
"""
