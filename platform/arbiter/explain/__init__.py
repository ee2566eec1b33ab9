"""The reasons why jobs wait, and the use of the tree."""
