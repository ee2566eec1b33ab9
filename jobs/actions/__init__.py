"""What people do to what is there already: cancel, hold, release, archive, delete, move.

A running job's own word, that it saved its work, is among them (`checkpoints`).
"""
