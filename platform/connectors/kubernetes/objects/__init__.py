"""Objects of the API server: their kinds, names, owners and parts. Pure."""
