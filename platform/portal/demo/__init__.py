"""The worked example: a company of 1,000 GPUs with people for every role."""
