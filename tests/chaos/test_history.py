"""After a cluster has gone back, which records must be there, must be gone, or may be either."""

from tests.chaos.history import Fate, History


def test_without_a_way_back_all_that_is_acknowledged_is_kept() -> None:
    lineage = History(["t"]).lineages["t"]
    assert lineage.fate(sent=1, acked=2) is Fate.KEPT
    assert lineage.fate(sent=1, acked=None) is Fate.OPEN


def test_a_restore_undoes_what_was_acknowledged_since_the_snapshot() -> None:
    lineage = History(["t"]).lineages["t"]
    lineage.go_back(lineage.cut(ended=10, ends=12), begins=20, began=22)
    assert lineage.fate(sent=8, acked=9) is Fate.KEPT
    assert lineage.fate(sent=9, acked=11) is Fate.OPEN, "sent while the snapshot was taken"
    assert lineage.fate(sent=13, acked=14) is Fate.GONE
    assert lineage.fate(sent=13, acked=None) is Fate.OPEN, "the client may send it again"
    assert lineage.fate(sent=19, acked=21) is Fate.OPEN, (
        "acknowledged by the old cluster or by the new one"
    )
    assert lineage.fate(sent=23, acked=24) is Fate.KEPT


def test_a_second_restore_of_a_snapshot_undoes_what_came_after_the_first() -> None:
    lineage = History(["t"]).lineages["t"]
    kept = lineage.cut(ended=10, ends=12)
    lineage.go_back(kept, begins=20, began=22)
    lineage.go_back(kept, begins=30, began=32)
    assert lineage.fate(sent=8, acked=9) is Fate.KEPT
    assert lineage.fate(sent=23, acked=24) is Fate.GONE
    assert lineage.fate(sent=33, acked=34) is Fate.KEPT


def test_a_snapshot_after_a_restore_keeps_what_both_times_left() -> None:
    lineage = History(["t"]).lineages["t"]
    lineage.go_back(lineage.cut(ended=10, ends=12), begins=20, began=22)
    later = lineage.cut(ended=30, ends=32)
    lineage.go_back(later, begins=40, began=42)
    assert lineage.fate(sent=8, acked=9) is Fate.KEPT
    assert lineage.fate(sent=14, acked=15) is Fate.GONE
    assert lineage.fate(sent=23, acked=29) is Fate.KEPT
    assert lineage.fate(sent=33, acked=39) is Fate.GONE


def test_a_deletion_is_of_one_topic_alone() -> None:
    history = History(["t", "u"])
    history.deleted("t", before=50)
    assert history.lineages["t"].fate(sent=1, acked=2) is Fate.GONE
    assert history.lineages["u"].fate(sent=1, acked=2) is Fate.KEPT
