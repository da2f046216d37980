"""What several test rooms share: a real server process, a raw HTTP client, the way to node."""
