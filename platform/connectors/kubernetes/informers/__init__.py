"""What a connector knows of its cluster without asking."""
