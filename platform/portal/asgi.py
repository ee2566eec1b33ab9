"""Entry point of the web process. It exits, with the reason, when it is not safe to serve."""

from __future__ import annotations

import gc
import os
from concurrent.futures import ThreadPoolExecutor

from django.urls import get_resolver

from portal.routing import build_application
from portal.startup import refuse_or_exit

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")

#: Number of new objects that starts a search for cycles. It is enough for dozens of pages of jobs.
COLLECT_EVERY = 20_000

application = build_application()
# With several workers, uvicorn imports this module inside a running event loop. Django refuses
# database queries there, but a thread has no loop.
with ThreadPoolExecutor(1) as _thread:
    _thread.submit(refuse_or_exit).result()

# Load all views now, so that the first request does not wait for that.
_ = get_resolver().url_patterns
# A page creates thousands of objects and no cycles. A search at every 700 objects, and among all
# that was loaded, took a tenth of its time.
gc.collect()
gc.freeze()
gc.set_threshold(COLLECT_EVERY, 10, 10)
