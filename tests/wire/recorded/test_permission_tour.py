"""Whatever rights a client has, every answer is the one that Apache Kafka gave it.

`permission_answers.json` has what Apache Kafka answered;
`python -m tests.wire.recorded.permission_tour` asks it again. On Apache Kafka, the test shows
that the record is right.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest

from tests.wire.recorded.permission_tour import PermissionTour, read_recorded, touring
from tests.wire.recorded.raw_calls.permissions import CALLS, GRANTS
from tests.wire.recorded.raw_tour import condensed

#: Differences on purpose, which `docs/differences.md` explains.
DIFFERENT: Final[Mapping[tuple[str, str], str]] = {
    **{
        ("all but a few", f"change configs {which}in an unknown way"): (
            "Kafka's answer is UNKNOWN_SERVER_ERROR"
        )
        for which in ("", "of a group ")
    },
    **{
        (grant, name): "malformed and not permitted: Kafka's answer is that it is malformed"
        for name, permitted in {
            "change configs badly": {"the cluster", "all but a few"},
            "change configs twice": {"all but a few"},
            "configs of an unknown kind": {"all but a few"},
            "create twice": {"the cluster"},
            "delete by both": {"the cluster", "all but a few"},
            "delete by name twice": {"the cluster", "all but a few"},
            "delete twice": {"the cluster", "all but a few"},
            "grow twice": {"all but a few"},
            "offsets with an unknown isolation": GRANTS.keys()
            - {"a few resources", "all but a few"},
            "sync": {"the rights of a job", "all but a few"},
        }.items()
        for grant in GRANTS
        if grant not in permitted
    },
}
RECORDED: Final[Mapping[str, Mapping[str, Any]]] = read_recorded()  # Any: as JSON has it


ON_EITHER_KIND = ("tour",)


@pytest.fixture(scope="module")
def tour(request: pytest.FixtureRequest) -> Iterator[PermissionTour]:
    with touring(request.param) as started:
        yield started


def test_every_call_is_recorded_with_every_grant() -> None:
    assert list(RECORDED) == list(CALLS)
    assert all(set(answers) == set(GRANTS) for answers in RECORDED.values())
    assert {name for _, name in DIFFERENT} <= set(CALLS)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("grant", GRANTS)  # the slower one, for ACLs take time
def test_an_answer_is_as_apache_kafka_gave_it(tour: PermissionTour, grant: str, name: str) -> None:
    recorded = RECORDED[name][grant]
    versions = sorted(int(version) for row in recorded for version in row["versions"])
    answered = condensed(tour.answers(grant, name, versions))
    if (grant, name) in DIFFERENT and not tour.is_apache:
        assert answered != recorded, "this difference is gone; remove it from the table"
    else:
        assert answered == recorded
