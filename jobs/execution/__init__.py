"""Execution on clusters: send decisions out, and read the clusters' answers in.

`dispatch` carries out intentions. `observation` applies listings, `comparing` finds what they
change, and `concluding` moves jobs on. `settling` releases held submissions, and `withdrawing`
withdraws stuck ones.
"""
