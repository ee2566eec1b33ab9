"""One cycle of the arbiter: read a snapshot, decide, commit the plan, store reasons and a record.

`arbitration` is the cycle, `memory` and `snapshots` are what it reads.
"""
