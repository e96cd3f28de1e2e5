"""The `embedkafka` command; `python -m embedkafka.cli` is the same."""

from embedkafka.cli.entry import main as main
