"""Templates of teams: requests with members that are locked or free."""
