"""The value types of the embedded API server: calls, replies, refusals, definitions of kinds."""
