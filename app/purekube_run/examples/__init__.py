"""Example objects of a structural schema, generated from a seed or by Hypothesis, for tests."""
