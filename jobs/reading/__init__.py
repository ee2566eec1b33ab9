"""What people are told of jobs: lists, pages, logs, reasons and decisions.

Nothing here changes a job; all of it is cut to what the reader may see (`jobs.access`).
"""
