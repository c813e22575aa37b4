"""The storage of the embedded API server: objects, their history, lists and watches."""
