"""Why jobs wait, and how the tree is used."""
