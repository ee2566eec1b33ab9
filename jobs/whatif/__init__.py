"""Questions to the arbiter without any effect: previews, estimates, alternatives and replays.

`heavy_answers` bounds how many are computed at once.
"""
