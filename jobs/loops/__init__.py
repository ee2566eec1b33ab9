"""The processes that run for ever: the arbiter's loop, and the observer's with its agents."""
