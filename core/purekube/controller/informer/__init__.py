"""The informer: a machine that lists and watches, and the store that it fills."""
