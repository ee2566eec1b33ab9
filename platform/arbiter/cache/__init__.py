"""The state of one pool: configuration, running jobs, claims."""
