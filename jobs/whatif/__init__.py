"""Questions to the arbiter that have no effect: previews, estimates, alternatives, replays.

`heavy_answers` bounds how many are worked out at once.
"""
