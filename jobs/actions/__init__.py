"""Actions on existing objects: cancel, hold, release, archive, delete, move.

Checkpoint reports of running jobs are here too (`checkpoints`).
"""
