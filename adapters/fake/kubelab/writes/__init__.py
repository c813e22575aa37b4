"""The steps from a write request to the object to store, as pure functions."""
