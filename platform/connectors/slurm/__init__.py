"""A Slurm cluster, spoken to through its REST daemon, slurmrestd."""
