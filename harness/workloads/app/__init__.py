"""Supervises a program of the user, and reads its output: the workload of kind `app`.

__main__      the process: starts the program, watches it, waits for its output, stops it
instances     the instances of the program, which are started again when they end
commands      instances that are commands of this machine
containers    instances that are containers
outputs       readers of topics, files, databases and HTTP requests
processes     the faults' side: which processes there are now, and which stay down
"""
