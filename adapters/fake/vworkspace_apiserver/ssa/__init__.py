"""Server-side apply: `apply` merges and decides who owns what, `track_update` records every other write.

Field sets (`fieldset`) are the JSON of `fieldsV1` itself. Merging, comparing and removing see values through a
schema (`typed`); `ownership` settles what a write takes from others; `managers` reads and writes the entries.
The rules are numbered S-15 to S-81 in the facts that the tests name.
"""
