"""The checks of an examined operator, in one module for each group of clauses (requirements), such as REC."""
