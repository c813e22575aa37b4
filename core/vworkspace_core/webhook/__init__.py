"""The admission webhooks as pure functions: validation and defaulting of the object in an AdmissionReview (RUN-6)."""
