"""What people do to an object without knowing its annotations: retry, suspend, resume, cancel, approve, logs."""
