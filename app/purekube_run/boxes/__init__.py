"""The loading of boxes from files and clusters, and the running of the operators that they describe (PH-6)."""
