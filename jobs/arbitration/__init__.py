"""A cycle of the arbiter: read a snapshot, decide, commit the plan, store reasons and a record.

`arbitration` runs the cycle, `memory` and `snapshots` provide its input.
"""
