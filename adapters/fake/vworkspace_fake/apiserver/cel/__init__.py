"""The CEL subset of the embedded API server: what `x-kubernetes-validations` may say here.

The whole grammar of CEL; all its operators on null, bool, int, uint, double, string, bytes, list, map, timestamp
and duration; `has`, `all`, `exists`, `exists_one`, `map` and `filter`; optionals (`.?x`, `[?k]`, `optional.of`,
`optMap`, `orValue`, …); the conversions and string functions; of the Kubernetes libraries lists, sets, regular
expressions (`find`, `findAll`), quantities with their comparison, `isIP`, `isCIDR`, `isURL`; `base64` and
`math.greatest` and `math.least`. `functions.py` is the complete list.

Not in it: comprehensions with two variables, `format`, `url()`, `ip()`, `cidr()` and named formats as values, and
the estimate of a rule's cost. A rule that needs what is missing is refused when its CRD is written, with its path
and the reason; no rule is ever left out silently.
"""
