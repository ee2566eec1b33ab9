"""What is true of a job while it waits: dependencies, limits, avoided clusters.

It also stores the reasons that are told, one line for each cause.
"""
