"""Is Kafka's warm-section search worth having? `python -m benchmarks.index_search`

Kafka first searches the last 8 KiB of an index, because consumers near the end of a log keep those
pages of its memory map in the cache. Our index is an array in memory, searched in C. This script
times both ways on it, for offsets near the end and anywhere.
"""

import random
import time
from array import array
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Final

WARM_ENTRIES: Final = 8192 // 8
ENTRIES: Final = (1_000, 100_000, 1_310_720)  # the last is the capacity of a default index
LOOKUPS: Final = 20_000
ROUNDS: Final = 7

Search = Callable[["array[int]", int], int]


def plain(entries: "array[int]", key: int) -> int:
    return bisect_right(entries, key)


def warm(entries: "array[int]", key: int) -> int:
    begin = len(entries) - WARM_ENTRIES
    if begin > 0 and entries[begin] <= key:
        return bisect_right(entries, key, begin)
    return bisect_right(entries, key, 0, max(begin, 0) or len(entries))


def time_search(search: Search, entries: "array[int]", keys: Sequence[int]) -> float:
    """Nanoseconds per lookup in the best round; CPU time, since other processes run as well."""
    best = float("inf")
    for _ in range(ROUNDS):
        begun = time.thread_time_ns()
        for key in keys:
            search(entries, key)
        best = min(best, (time.thread_time_ns() - begun) / len(keys))
    return best


def main() -> None:
    rng = random.Random(1)
    print(f"{'entries':>10} {'offsets':>10} {'plain':>8} {'warm':>8}   nanoseconds per lookup")
    for count in ENTRIES:
        entries = array("q", (number << 32 | number * 4096 for number in range(count)))
        for where, lowest in (("at the end", max(count - 100, 0)), ("anywhere", 0)):
            keys = [rng.randrange(lowest, count) << 32 for _ in range(LOOKUPS)]
            assert all(plain(entries, key) == warm(entries, key) for key in keys)
            plain_ns, warm_ns = (time_search(search, entries, keys) for search in (plain, warm))
            print(f"{count:>10} {where:>10} {plain_ns:>8.0f} {warm_ns:>8.0f}")


if __name__ == "__main__":
    main()
