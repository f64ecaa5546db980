"""An agent: what `harness.targets.linux` can do, done on another machine for a harness elsewhere.

One process as root, for one machine and its one node. `machine` is what it works on, `calls` how a
call travels, `server` answers them and heals when nobody calls any more, `client` is the harness's
end. How the two find each other (ssh, or anything that carries bytes) is the target's business.
"""
