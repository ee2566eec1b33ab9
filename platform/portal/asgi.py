"""Entry point of the web process; it exits, with the reason, where it must not serve."""

from __future__ import annotations

import gc
import os
from concurrent.futures import ThreadPoolExecutor

from django.urls import get_resolver

from portal.routing import build_application
from portal.startup import refuse_or_exit

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")

#: Objects that may be made before young ones are searched for cycles: a few dozen pages of jobs.
COLLECT_EVERY = 20_000

application = build_application()
# uvicorn imports this inside a running event loop when it has several workers, and Django
# refuses to ask the database there; a thread has no loop.
with ThreadPoolExecutor(1) as _thread:
    _thread.submit(refuse_or_exit).result()

# Routes bring in every view; the first request must not wait for that.
_ = get_resolver().url_patterns
# A page makes thousands of objects and no cycles. To look for some at every 700 objects, and among
# all that was loaded, took a tenth of its time.
gc.collect()
gc.freeze()
gc.set_threshold(COLLECT_EVERY, 10, 10)
