"""Clusters that run Kubernetes, with Kueue as the executor.

`kind` declares the kind and `connector` implements it. Each of these packages imports only packages
below it in this list (checked by import-linter):

- `natives`, `quotas`, `node_control`: administrators' actions on a cluster; `accounts`, `metrics`,
- `attempts`: submit, find, reconcile (`reconciler.duties`) and stop attempts of our jobs; `logs`,
- `informers`: the watched state of the cluster,
- `admission`: the admission check, the gate for native workloads, and why Pods are refused,
- `workloads`, `manifests`, `nodes`: pure translation from and to the protocol,
- `options`, `client`, `objects`: checked options, the API server, and parts of objects.
"""
