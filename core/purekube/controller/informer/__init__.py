"""The informer: a state machine that lists and watches one kind, and the store that it fills."""
