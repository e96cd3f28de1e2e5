"""Names that clusters had raise an error that says where they are now."""

import re
from pathlib import Path

import pytest

from embedkafka import EmbeddedKafka, OwnedBroker, OwnedBrokers, OwnedGroup, OwnedTopic
from embedkafka.cluster.handles.moved import MOVED

ROOT = Path(__file__).parents[3]
KINDS = {
    "topic": OwnedTopic,
    "kafka.group(group)": OwnedGroup,
    "kafka.brokers": OwnedBrokers,
    "kafka.broker(id)": OwnedBroker,
    "kafka": EmbeddedKafka,
}
PLACE = re.compile(rf"({'|'.join(map(re.escape, KINDS))})\.(\w+)(?:\(|$)")


@pytest.mark.parametrize("name", MOVED)
def test_a_moved_name_says_where_it_is(name: str) -> None:
    kafka = EmbeddedKafka()
    assert not hasattr(kafka, name)
    with pytest.raises(AttributeError) as raised:
        getattr(kafka, name)
    assert str(raised.value).startswith(f"`kafka.{name}` has moved: use `{MOVED[name]}`")
    assert (raised.value.name, raised.value.obj) == (name, kafka)


@pytest.mark.parametrize("name", MOVED)
def test_the_place_that_the_error_names_is_there(name: str) -> None:
    for place in MOVED[name].split(" or "):
        found = PLACE.match(place)
        assert found is not None, place
        assert hasattr(KINDS[found[1]], found[2]), place


def test_the_changes_list_each_moved_name() -> None:
    text = (ROOT / "CHANGES.md").read_text(encoding="utf-8")
    listed = dict(re.findall(r"^  \| `kafka\.(\w+)` \| (.+) \|$", text, re.MULTILINE))
    assert {old: new.replace("`", "") for old, new in listed.items()} == MOVED


def test_a_name_that_never_was_is_a_plain_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'EmbeddedKafka' object has no attribute 'brokr'"):
        EmbeddedKafka().brokr(1)  # type: ignore[attr-defined]  # the mistake
