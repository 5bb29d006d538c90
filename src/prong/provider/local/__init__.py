"""A model in a process of our own: no key, no network, and forks that share what is computed."""
