"""Every user's name has its own file, and is found again in the subject of its certificate."""

from hypothesis import given
from hypothesis import strategies as st

from embedkafka.cluster.access.user_names import common_name, file_name, mapping_rules
from embedkafka.security.certificate_names import format_common_name, map_name, parse_rules

NAMES = st.text(min_size=1, max_size=80).filter(str.isprintable) | st.text(
    alphabet='aA/\\,.$+=;#"<> 1', min_size=1, max_size=8
)


@given(st.lists(NAMES, min_size=1, max_size=5, unique=True))
def test_a_certificate_names_the_user_that_it_is_for(users: list[str]) -> None:
    rules = parse_rules(mapping_rules(users))
    subjects = [format_common_name(common_name(user)) for user in users]
    assert [map_name(rules, subject) for subject in subjects] == users


@given(st.lists(NAMES, min_size=2, max_size=5, unique=True))
def test_no_two_users_share_a_file(users: list[str]) -> None:
    files = [file_name(user, "pem") for user in users]
    assert len({file.casefold() for file in files}) == len(users)
    for file in files:
        assert "/" not in file
        assert "\\" not in file
        assert len(file) < 128


def test_a_certificate_of_an_unlisted_user_keeps_the_backslashes_of_its_subject() -> None:
    rules = parse_rules(mapping_rules(["job"]))
    assert map_name(rules, "CN=job,OU=x") == "job"
    assert map_name(rules, r"CN=job\,x,OU=y") == r"job\,x"
