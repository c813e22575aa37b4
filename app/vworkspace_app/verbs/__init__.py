"""The actions of users on objects, by which they need not know annotations: retry, suspend, cancel, approve, logs."""
