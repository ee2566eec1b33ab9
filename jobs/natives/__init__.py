"""Native jobs: jobs that people submitted directly to a cluster.

`natives` counts those that run (Slurm). `waiting_natives` lets the arbiter start those that wait
(Kueue).
"""
