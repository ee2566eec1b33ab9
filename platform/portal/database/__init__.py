"""Django's PostgreSQL, with a pool of connections that is usable again as soon as the server is.

`ENGINE` names this package; Django loads `base` of it.
"""
