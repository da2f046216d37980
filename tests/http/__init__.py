"""The server as a stranger sees it: bytes over sockets, through both doors."""
