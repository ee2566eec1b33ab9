"""Kubernetes manifests as people have them: what their Pods ask for, and what is refused.

Pure: texts in, records out, no I/O. `reading.read_manifest` is the entry.
"""
