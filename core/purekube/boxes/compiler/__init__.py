"""The compiler of a box: its checks, and the taint of values that users of the box choose (PH-6, RUN-12)."""
