"""What was decided is carried out on clusters, and what clusters say becomes what we know.

`dispatch` answers intentions, `observation` reads listings, `settling` and `withdrawing` let go
or take back.
"""
