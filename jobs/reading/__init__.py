"""Reading of jobs for people: lists, pages, logs, reasons and decisions.

Nothing here changes a job. All answers are limited to what the reader may see (`jobs.access`).
"""
