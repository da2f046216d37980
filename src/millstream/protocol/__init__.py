"""The rules, and nothing but the rules: no clock, no randomness, no storage, no event loop."""
