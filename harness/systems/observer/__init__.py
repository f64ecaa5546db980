"""Who looks at the cluster while it is broken, and what is made of the answers."""
