"""Pairs about changes of rows: updates, deletions, and copies that a connector sends again."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pyspark.sql import DataFrame, Row

from embedkafka.explore import Input, Options
from tests.spark.corpus.parts import Given, Store, columns, to_function

Change = Mapping[str, Any]
Apply = Callable[[list[Change], Options], None]

SCHEMA = "id INT, version INT, op STRING, name STRING"


def change(id: int, version: int, op: str, name: str = "") -> Change:
    return {"id": id, "version": version, "op": op, "name": name}


def applying(apply: Apply, changes: Iterable[Change], *, resends: bool = False) -> Given:
    """A job that gives the changes of a batch, in their order, to a function."""

    def save(batch: DataFrame, number: int, options: Options) -> None:
        apply([row.asDict() for row in batch.collect()], options)

    return {
        "job": lambda spark, options: to_function(
            columns(spark, options, "in", SCHEMA), options, save
        ),
        "inputs": {"in": Input(list(changes), key="id", resends=resends)},
    }


class DeletionsLast:
    """Applies the deletions of a batch after its upserts: a row that came back is gone.

    The other takes the last change of each row first.
    """

    says = "they differ"

    def __init__(self) -> None:
        self._rows = Store("rows (id INTEGER PRIMARY KEY, name TEXT)")

    def wrong(self) -> Given:
        return self._given(self._apply)

    def right(self) -> Given:
        def apply(changes: list[Change], options: Options) -> None:
            last = {each["id"]: each for each in sorted(changes, key=lambda each: each["version"])}
            self._apply(list(last.values()), options)

        return self._given(apply)

    def _given(self, apply: Apply) -> Given:
        changes = [
            change(1, 1, "c", "Ada"),
            change(2, 2, "c", "Grace"),
            change(1, 3, "d"),
            change(1, 4, "c", "Ada Lovelace"),
        ]
        return {**applying(apply, changes), "outputs": {"out": self._rows.rows}}

    def _apply(self, changes: list[Change], options: Options) -> None:
        upserts = [(each["id"], each["name"]) for each in changes if each["op"] != "d"]
        self._rows.change(options, "INSERT OR REPLACE INTO rows VALUES (?, ?)", upserts)
        deletions = [(each["id"],) for each in changes if each["op"] == "d"]
        self._rows.change(options, "DELETE FROM rows WHERE id = ?", deletions)


class SameTime:
    """Takes a change for newer if its time is the same, or asks for its version, too."""

    says = "they differ"

    def __init__(self) -> None:
        self._rows = Store("rows (id INTEGER PRIMARY KEY, at INTEGER, version INTEGER, name TEXT)")

    def wrong(self) -> Given:
        return self._given("excluded.at >= rows.at")

    def right(self) -> Given:
        return self._given("(excluded.at, excluded.version) >= (rows.at, rows.version)")

    def _given(self, is_newer: str) -> Given:
        def apply(changes: list[Change], options: Options) -> None:
            self._rows.change(
                options,
                "INSERT INTO rows VALUES (?, 0, ?, ?) ON CONFLICT DO UPDATE SET version = "
                f"excluded.version, name = excluded.name WHERE {is_newer}",
                [(each["id"], each["version"], each["name"]) for each in changes],
            )

        changes = [change(1, 1, "c", "new"), change(1, 2, "u", "paid"), change(2, 3, "c", "new")]
        given = applying(apply, changes, resends=True)
        return {**given, "outputs": {"out": self._rows.rows}}


class DeletedWithoutTrace:
    """Deletes a row, which an old copy of an update brings back, or remembers the deletion."""

    says = "they differ"

    def __init__(self) -> None:
        self._rows = Store("rows (id INTEGER PRIMARY KEY, version INTEGER, op TEXT, name TEXT)")

    def wrong(self) -> Given:
        def apply(changes: list[Change], options: Options) -> None:
            self._upsert(changes, options)
            self._rows.change(options, "DELETE FROM rows WHERE op = 'd'")

        return self._given(apply)

    def right(self) -> Given:
        return self._given(self._upsert)

    def _given(self, apply: Apply) -> Given:
        changes = [
            change(1, 1, "c", "Ada"),
            change(2, 2, "c", "Grace"),
            change(1, 3, "u", "Ada Lovelace"),
            change(1, 4, "d"),
        ]
        return {**applying(apply, changes, resends=True), "outputs": {"out": self._living}}

    def _upsert(self, changes: list[Change], options: Options) -> None:
        self._rows.change(
            options,
            "INSERT INTO rows VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET version = "
            "excluded.version, op = excluded.op, name = excluded.name "
            "WHERE excluded.version > rows.version",
            [(each["id"], each["version"], each["op"], each["name"]) for each in changes],
        )

    def _living(self, spark: Any, options: Options) -> list[dict[str, Any]]:
        return [row for row in self._rows.rows(spark, options) if row["op"] != "d"]


class PartOfRow:
    """Writes all columns of a change that has only some, or keeps what it does not have."""

    says = "they differ"

    def __init__(self) -> None:
        self._rows = Store("rows (id INTEGER PRIMARY KEY, city TEXT, name TEXT)")

    def wrong(self) -> Given:
        """It unites the changes of a batch first, which hides the fault in one batch."""
        return self._given("INSERT OR REPLACE INTO rows VALUES (?, ?, ?)")

    def right(self) -> Given:
        return self._given(
            "INSERT INTO rows VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET "
            "city = coalesce(excluded.city, city), name = coalesce(excluded.name, name)"
        )

    def _given(self, statement: str) -> Given:
        def save(batch: DataFrame, number: int, options: Options) -> None:
            united: dict[int, dict[str, Any]] = {}
            for row in map(Row.asDict, batch.collect()):
                known = {name: part for name, part in row.items() if part is not None}
                united.setdefault(row["id"], {}).update(known)
            rows = [(id, row.get("city"), row.get("name")) for id, row in united.items()]
            self._rows.change(options, statement, rows)

        changes = [{"id": 1, "name": "Ada"}, {"id": 1, "city": "London"}, {"id": 2, "name": "Joan"}]
        return {
            "job": lambda spark, options: to_function(
                columns(spark, options, "in", "id INT, city STRING, name STRING"), options, save
            ),
            "inputs": {"in": Input(changes, key="id")},
            "outputs": {"out": self._rows.rows},
        }
