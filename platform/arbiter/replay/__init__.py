"""Records of cycles, and what they would decide today."""
