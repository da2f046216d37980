"""The repository itself: what it says about the code is true."""
