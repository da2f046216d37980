"""Tests that kill, stop and trace real server processes."""
