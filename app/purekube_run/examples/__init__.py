"""Example objects of a structural schema, generated from a seed or by Hypothesis: for laws and tests of conversions."""
