"""Which devices are free, where a job fits, and what a pool can hold."""
