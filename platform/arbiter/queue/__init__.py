"""The order of service and the jobs that wait in it."""
