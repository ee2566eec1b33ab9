"""The queue of each team, and the order of service between teams."""
