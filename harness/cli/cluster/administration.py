"""All administrative commands of `highwater cluster`, in one Typer application."""

from harness.cli.cluster import brokers, configs, groups, reassign, state, topics, transactions
from harness.cli.options import command_group

app = command_group()
app.add_typer(topics.app, name="topics")
app.add_typer(brokers.app, name="brokers")
app.add_typer(configs.app, name="configs")
app.add_typer(groups.app, name="groups")
app.add_typer(transactions.app, name="transactions")
app.add_typer(reassign.app, name="reassign")
app.add_typer(state.quorum_app, name="quorum")
app.add_typer(state.log_dirs_app, name="log-dirs")
app.command("elect-leaders")(state.elect_leaders)
app.command("delete-records")(state.delete_records)
app.command("producers")(state.describe_producers)
