"""The verbs for objects, without knowledge of their annotations: retry, suspend, resume, cancel, approve, logs."""
