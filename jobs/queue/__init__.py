"""The conditions of waiting jobs: dependencies, limits, avoided clusters.

It also stores the reasons for waiting, one line for each cause.
"""
