"""Objects as the API server has them: their kinds, names, owners and parts. Pure."""
