"""torchrun, whose failures are also data: `python -m trainers.torchrun --failures FILE` and torchrun's own arguments.

The ranks write to our stderr, and what they say should not drown in torchrun's report of them: `src/rank-tree.ts`
tells it.
"""

import json
import logging
import sys

from torch.distributed.elastic.multiprocessing import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.run import main


def run(arguments: list[str]) -> int:
    """0: every rank ended well. 1: the file holds {rank: {"pid", "exitcode"}} of those that failed; -9: killed."""
    path, rest = arguments[1], arguments[2:]
    logging.disable()  # it would name processes and signals of which the person who typed --nproc has never heard
    try:
        main(rest)
    except ChildFailedError as error:
        failures = {rank: {"pid": each.pid, "exitcode": each.exitcode} for rank, each in error.failures.items()}
        with open(path, "w", encoding="utf-8") as file:
            json.dump(failures, file)
        return 1
    except SignalException:
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
