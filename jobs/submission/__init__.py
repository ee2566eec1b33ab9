"""From a request to a queued job: read, check and store it.

`requests` and `sbatch` read a request, `offers` and `fitting` check it, and `submission` stores it.
"""
