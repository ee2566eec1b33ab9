"""Jobs that people gave to a cluster beside the portal.

`natives` counts what runs (Slurm), `waiting_natives` has the arbiter start what waits (Kueue).
"""
