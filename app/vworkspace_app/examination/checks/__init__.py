"""The checks, a module for the clauses of each letter code."""
