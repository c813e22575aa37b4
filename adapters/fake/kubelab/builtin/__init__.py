"""The kinds that are served without a CRD, with their schemas, defaults and immutable fields."""
