"""Records of cycles, and what the same data would decide today."""
