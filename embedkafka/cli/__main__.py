"""`python -m embedkafka.cli`: the `embedkafka` command."""

import sys

from embedkafka.cli.entry import main

if __name__ == "__main__":
    sys.exit(main())
