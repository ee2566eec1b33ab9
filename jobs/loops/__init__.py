"""The processes that never end: the arbiter's loop, and the observer's with its agents."""
