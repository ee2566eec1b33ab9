"""From a request to a queued job: read it, check it, store it.

`requests` and `sbatch` read what a person asks for, `offers` and `fitting` check it, and
`submission` stores it.
"""
