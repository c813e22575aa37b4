"""The actions of users on objects, which set annotations and fields: retry, suspend, resume, cancel, approve; logs."""
