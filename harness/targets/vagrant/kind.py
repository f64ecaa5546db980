"""What a plan for Vagrant's machines needs, before it is started."""

from pathlib import Path

from harness.plan import Plan
from harness.targets.ssh.kind import SshKind
from harness.targets.vagrant import machines


class VagrantKind(SshKind):
    """The machines that `vagrant up` made, reached by SSH. See `harness.targets.kinds.Kind`."""

    def __init__(self, plan: Plan) -> None:
        """Raises TargetError when they are not there."""
        where = machines.directory(Path.cwd())
        super().__init__(plan, machines.inventory(where, plan.nodes))
