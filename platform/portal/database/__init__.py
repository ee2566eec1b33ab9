"""Django's PostgreSQL backend with a connection pool that works again as soon as the server does.

`ENGINE` names this package, and Django loads its module `base`.
"""
