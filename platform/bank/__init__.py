"""Credit banks of organizations: accounts, settlement of usage, switches; who may see them."""
