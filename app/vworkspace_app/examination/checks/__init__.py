"""The checks, in one module for each letter code of clauses, such as REC."""
