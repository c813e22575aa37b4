"""The steps from a write request to the object that is stored, as pure functions."""
