"""The admission webhooks as pure functions: read a review, validate or default its object, write the answer (RUN-6)."""
