"""Entry point of the web process; it exits, with the reason, where it must not serve."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

from portal.routing import build_application
from portal.startup import refuse_or_exit

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")

application = build_application()
# uvicorn imports this inside a running event loop when it has several workers, and Django
# refuses to ask the database there; a thread has no loop.
with ThreadPoolExecutor(1) as _thread:
    _thread.submit(refuse_or_exit).result()
