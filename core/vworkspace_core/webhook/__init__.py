"""The admission webhooks as pure functions: read a review, judge or complete its object, write the answer (RUN-6)."""
