"""Delegation tokens on a clock that the test moves, and their znodes."""

import base64
import json
import random

import pytest

from embedkafka.broker.settings.broker import BrokerConfig
from embedkafka.broker.settings.part_configs import find_token_settings
from embedkafka.runtime.clock import ManualClock
from embedkafka.runtime.failures import Failures
from embedkafka.security.principals import KafkaPrincipal
from embedkafka.security.sasl.scram import ScramExchange, ScramLogin
from embedkafka.security.sasl.scram_credentials import SALT_BYTES
from embedkafka.security.tokens import DelegationTokens, TokenSettings, decode_token, encode_token
from embedkafka.wire.protocol.errors import ApiError, ErrorCode
from embedkafka.zk.change_feed import CHANGE_EXPIRATION_MS
from embedkafka.zk.kafka_zk import KafkaZk
from embedkafka.zk.memory import MemoryZk
from tests.doubles.scheduling import ManualScheduler
from tests.presence import present

ALICE, BOB = KafkaPrincipal("User", "alice"), KafkaPrincipal("User", "bob")
CAROL = KafkaPrincipal("User", "CN=Carol, OU=x/y")
DAY_MS = 86_400_000
SETTINGS = TokenSettings(
    delegation_token_secret_key="s3cret",
    delegation_token_max_lifetime_ms=7 * DAY_MS,
    delegation_token_expiry_time_ms=DAY_MS,
)


class Bench:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self._server = MemoryZk(self.clock, Failures())
        self.zk = KafkaZk(self._server.connect(), self.clock)
        self.tokens = DelegationTokens(SETTINGS, self.zk, self.clock, random.Random(1))
        self.background = ManualScheduler(self.clock)
        self.tokens.load(self.background)

    def other_broker(self) -> DelegationTokens:
        zk = KafkaZk(self._server.connect(), self.clock)
        return DelegationTokens(SETTINGS, zk, self.clock, random.Random(2))


@pytest.fixture
def bench() -> Bench:
    return Bench()


def refusal(attempt: object, *arguments: object) -> ErrorCode:
    assert callable(attempt)
    with pytest.raises(ApiError) as refused:
        attempt(*arguments)
    return refused.value.code


def test_a_token_is_stored_as_kafka_stores_it(bench: Bench) -> None:
    token = bench.tokens.create(CAROL, ALICE, [BOB], -1)
    data, _ = bench.zk.store.get(f"/delegation_token/tokens/{token.token_id}")
    assert json.loads(data) == {
        "version": 3,
        "owner": "User%3ACN%3DCarol%2C%20OU%3Dx%2Fy",
        "tokenRequester": "User%3Aalice",
        "renewers": ["User%3Abob"],
        "issueTimestamp": token.issued_ms,
        "maxTimestamp": token.issued_ms + 7 * DAY_MS,
        "expiryTimestamp": token.issued_ms + DAY_MS,
        "tokenId": token.token_id,
    }
    assert decode_token(data) == token
    (change,) = bench.zk.store.children("/delegation_token/token_changes")
    assert change.startswith("token_change_")
    data, _ = bench.zk.store.get(f"/delegation_token/token_changes/{change}")
    assert data == token.token_id.encode()


def test_a_token_of_an_older_kafka_was_requested_by_its_owner(bench: Bench) -> None:
    stored = json.loads(encode_token(bench.tokens.create(ALICE, BOB, [], -1)))
    del stored["tokenRequester"]
    assert decode_token(json.dumps({**stored, "version": 2}).encode()).requester == ALICE


def test_a_token_expires_on_the_clusters_clock(bench: Bench) -> None:
    token = bench.tokens.create(ALICE, ALICE, [], -1)
    mac = bench.tokens.mac(token.token_id)
    bench.clock.advance(ms=DAY_MS)
    bench.tokens.remove_expired()
    assert bench.tokens.all() == [token]
    assert bench.tokens.renew(mac, ALICE, -1) == token.issued_ms + 2 * DAY_MS
    bench.clock.advance(ms=DAY_MS + 1)
    assert refusal(bench.tokens.renew, mac, ALICE, -1) is ErrorCode.DELEGATION_TOKEN_EXPIRED
    assert refusal(bench.tokens.expire, mac, ALICE, 5) is ErrorCode.DELEGATION_TOKEN_EXPIRED
    bench.tokens.remove_expired()
    assert bench.tokens.all() == []
    assert refusal(bench.tokens.renew, mac, ALICE, -1) is ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def test_no_renewal_goes_past_the_longest_life(bench: Bench) -> None:
    token = bench.tokens.create(ALICE, ALICE, [], DAY_MS // 2)
    mac = bench.tokens.mac(token.token_id)
    assert bench.tokens.renew(mac, ALICE, 100 * DAY_MS) == token.max_ms
    assert bench.tokens.create(ALICE, ALICE, [], 2**63 - 1).max_ms == token.issued_ms + 7 * DAY_MS


def test_a_change_holds_on_every_broker(bench: Bench) -> None:
    other = bench.other_broker()
    token = bench.tokens.create(ALICE, ALICE, [BOB], -1)
    assert present(other.find_account("SCRAM-SHA-512", token.token_id)).identity.name == "alice"
    other.expire(other.mac(token.token_id), BOB, -1)
    assert bench.tokens.find_account("SCRAM-SHA-512", token.token_id) is None


def test_a_login_with_a_token_lasts_as_long_as_the_token(bench: Bench) -> None:
    token = bench.tokens.create(ALICE, ALICE, [], -1)

    class Accounts:
        decoy_secret = b"secret"
        find_user = find_token = bench.tokens.find_account

    password = base64.b64encode(bench.tokens.mac(token.token_id)).decode()
    exchange = ScramExchange("SCRAM-SHA-256", Accounts(), random.Random(1))
    login = ScramLogin("SCRAM-SHA-256", token.token_id, password, random.Random(2))
    message = login.respond(None)
    while message is not None:
        message = login.respond(exchange.evaluate(message))
    assert present(exchange.identity).name == "alice"
    assert present(exchange.identity).expires_ms == token.expires_ms
    assert present(exchange.identity).token_authenticated


def test_brokers_make_the_same_challenge_of_a_token(bench: Bench) -> None:
    token = bench.tokens.create(ALICE, ALICE, [], -1)
    one, other = (
        present(tokens.find_account("SCRAM-SHA-256", token.token_id)).credential
        for tokens in (bench.tokens, bench.other_broker())
    )
    assert one.salt == other.salt
    assert len(one.salt) == SALT_BYTES


def test_old_announcements_and_dead_tokens_are_not_kept(bench: Bench) -> None:
    for _ in range(5):
        token = bench.tokens.create(ALICE, ALICE, [], -1)
        bench.tokens.find_account("SCRAM-SHA-256", token.token_id)
        bench.tokens.remove(token.token_id)
    bench.background.run_due()
    assert bench.tokens._credentials == {}
    changes = bench.zk.store.children("/delegation_token/token_changes")
    assert len(changes) == 10
    bench.clock.advance(ms=CHANGE_EXPIRATION_MS + 1)
    bench.tokens.remove_expired()
    assert bench.zk.store.children("/delegation_token/token_changes") == [max(changes)]


@pytest.mark.parametrize("token_id", ["", "/", "..", "a/b", "x"])
def test_an_id_that_is_none_opens_nothing(bench: Bench, token_id: str) -> None:
    assert bench.tokens.find_account("SCRAM-SHA-512", token_id) is None


@pytest.mark.parametrize("name", ["delegation.token.secret.key", "delegation.token.master.key"])
def test_a_secret_key_under_either_name_enables_tokens(name: str) -> None:
    settings = present(find_token_settings(BrokerConfig({name: "s3cret"})))
    assert settings.delegation_token_secret_key == "s3cret"
    assert "s3cret" not in repr(settings)
    assert find_token_settings(BrokerConfig({})) is None
