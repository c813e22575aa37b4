"""The commands `box ...`: a box is an operator that a YAML file declares."""
