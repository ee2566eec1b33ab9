"""Clusters that run Kubernetes, with Kueue as the executor.

`kind` declares the kind and `connector` implements it. Their packages, of which each imports only
those that follow it (kept by import-linter):

- `natives`, `quotas`, `node_control`: what administrators ask of a cluster,
- `attempts`: submit, find, reconcile (`reconciler.duties`) and stop attempts of our jobs; `logs`,
- `informers`: what is known of the cluster without asking,
- `admission`: the admission check, the gate for what others submit, and why Pods are refused,
- `workloads`, `manifests`, `nodes`: pure translation from and to the protocol,
- `options`, `client`, `objects`: options checked, the API server, and parts of objects.
"""
