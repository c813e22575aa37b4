"""Server-side apply: `apply` merges and assigns ownership, `track_update` records the ownership of other writes.

Field sets (`fieldset`) are the JSON of `fieldsV1` itself. Merging, comparing and removing interpret values by a schema
(`typed`); `ownership` computes what a write takes from other managers; `managers` reads and writes the entries of
managedFields. The rules S-15 to S-81 are in docs/spec/api-server.md. They are those of
kubernetes-sigs/structured-merge-diff (`apply` and `ownership` of its `merge/update.go` and `merge/conflict.go`, `merge`
and `typed` of `typed/merge.go` and `typed/tofieldset.go`, `fieldset` and `paths` of `fieldpath`) and of
kubernetes/apimachinery's `pkg/util/managedfields/internal` (`managers`).

In the comments `SMD:` means structured-merge-diff 6.3.3, and `managedfields:` the latter folder of apimachinery 0.36.3,
the versions in Kubernetes 1.36.3.
"""
