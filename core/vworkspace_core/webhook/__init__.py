"""The admission webhooks as pure functions: read a review, validate or default its object, answer it (RUN-6)."""
