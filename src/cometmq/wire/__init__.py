"""What other programs also read: frames, headers, bodies, records, ids. Knows neither sockets nor the time."""
