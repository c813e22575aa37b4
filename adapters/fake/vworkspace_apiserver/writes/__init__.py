"""What a write makes of an object, step by step, as pure functions."""
