"""The words of the embedded API server: calls, replies, refusals, definitions of kinds."""
