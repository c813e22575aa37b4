"""Objects drawn from a structural schema, by a seed or by Hypothesis: for laws, and to try conversions."""
