"""Variables and programs of Slurm for batch jobs on a cluster without Slurm.

A script with `#SBATCH` lines runs once, on the first node, and calls `srun` for the other nodes.
On a real Slurm these programs are Slurm's own. Elsewhere this package provides them.

The programs run inside of jobs: with `python -I -S`, in the job's environment, as the job's user.
So everything here uses small parts of the standard library only, and Python 3.10 is enough.
"""
