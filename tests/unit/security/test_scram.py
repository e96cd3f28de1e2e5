"""SCRAM against the vectors of its RFCs, and against clients that do not know the password."""

import base64
import hashlib
import hmac
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedkafka.security.sasl.exchange import AuthenticationFailed, Identity, InvalidCredentials
from embedkafka.security.sasl.scram import ScramAccount, ScramExchange, ScramLogin
from embedkafka.security.sasl.scram_credentials import (
    HASHES,
    MIN_ITERATIONS,
    SALT_BYTES,
    ScramCredential,
    credential_of,
    decode_credential,
    encode_credential,
)
from embedkafka.wire.net.channel_authenticator import LoginRefused
from tests.presence import present
from tests.unit.security.accounts import Accounts

SHA_256, SHA_512 = HASHES

# RFC 7677, section 3: user "user", password "pencil".
RFC_7677: dict[str, Any] = {
    "salt": base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="),
    "server_nonce": "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
    "client_first": b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
    "server_first": b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
    "client_final": b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
    "server_final": b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
}


def run(login: ScramLogin, exchange: ScramExchange) -> list[bytes]:
    """What the broker answers until the client has nothing more to say."""
    answers: list[bytes] = []
    token = login.respond(None)
    while token is not None:
        answers.append(exchange.evaluate(token))
        token = login.respond(answers[-1])
    return answers


def attempt(
    accounts: Accounts, user: str, password: str, mechanism: str = SHA_512
) -> ScramExchange:
    exchange = ScramExchange(mechanism, accounts, random.Random(1))
    run(ScramLogin(mechanism, user, password, random.Random(2)), exchange)
    return exchange


def test_the_exchange_of_rfc_7677(monkeypatch: pytest.MonkeyPatch) -> None:
    accounts = Accounts()
    account = ScramAccount(
        identity=Identity(name="user"),
        credential=credential_of(SHA_256, "pencil", salt=RFC_7677["salt"]),
    )
    monkeypatch.setattr(accounts, "find_user", lambda mechanism, name: account)
    monkeypatch.setattr(
        "embedkafka.security.sasl.scram.new_nonce", lambda rng: RFC_7677["server_nonce"]
    )
    exchange = ScramExchange(SHA_256, accounts, random.Random(1))
    assert exchange.evaluate(RFC_7677["client_first"]) == RFC_7677["server_first"]
    assert exchange.identity is None, "it has not seen the proof"
    assert exchange.evaluate(RFC_7677["client_final"]) == RFC_7677["server_final"]
    assert exchange.identity == Identity(name="user")


def test_the_client_of_rfc_7677(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "embedkafka.security.sasl.scram.new_nonce", lambda rng: "rOprNGfwEbeRWgbNEkqO"
    )
    login = ScramLogin(SHA_256, "user", "pencil", random.Random(1))
    assert login.respond(None) == RFC_7677["client_first"]
    assert login.respond(RFC_7677["server_first"]) == RFC_7677["client_final"]
    assert login.respond(RFC_7677["server_final"]) is None


@pytest.mark.parametrize("mechanism", HASHES)
@pytest.mark.parametrize("user", ["alice", "a,b=c", "=2C", "with space"])
def test_a_user_with_the_right_password_is_accepted(mechanism: str, user: str) -> None:
    exchange = attempt(Accounts(**{user: "pässwörd"}), user, "pässwörd", mechanism)
    assert exchange.identity == Identity(name=user)


def test_wrong_password_and_unknown_user_fail_alike() -> None:
    """At the same step, after challenges of the same form, for the same reason."""
    failures = []
    for user in ("alice", "nobody"):
        exchange = ScramExchange(SHA_512, Accounts(alice="a-secret"), random.Random(1))
        login = ScramLogin(SHA_512, user, "wrong", random.Random(2))
        challenge = exchange.evaluate(present(login.respond(None)))
        assert challenge.endswith(b",i=4096")
        with pytest.raises(InvalidCredentials) as refused:
            exchange.evaluate(present(login.respond(challenge)))
        assert exchange.identity is None
        failures.append(str(refused.value))
    assert failures[0] == failures[1]


def test_only_brokers_can_tell_the_salt_of_an_unknown_user_from_a_real_one() -> None:
    def salt(user: str, secret: bytes) -> bytes:
        accounts = Accounts()
        accounts.decoy_secret = secret
        exchange = ScramExchange(SHA_512, accounts, random.Random())
        answer = exchange.evaluate(f"n,,n={user},r=abc".encode()).decode()
        return base64.b64decode(answer.split(",")[1].removeprefix("s="))

    assert salt("bob", b"one") == salt("bob", b"one") != salt("carol", b"one")
    assert salt("bob", b"one") != salt("bob", b"other")
    assert len(salt("bob", b"one")) == SALT_BYTES


@pytest.mark.parametrize(
    ("challenge", "reason"),
    [
        (b"r=stranger,s=YQ==,i=4096", "nonce does not begin with ours"),
        (b"r=NONCE1,s=YQ==,i=4095", "asks for 4095 iterations"),
        (b"r=NONCE1,s=YQ==,i=1", "asks for 1 iterations"),
        (b"r=NONCE1,s=YQ==,i=999999999", "asks for 999999999 iterations"),
        (b"r=NONCE1,s=YQ==,i=" + b"9" * 5000, "malformed"),
    ],
)
def test_a_false_broker_gets_no_proof(challenge: bytes, reason: str) -> None:
    login = ScramLogin(SHA_256, "alice", "secret", random.Random(1))
    first = login.respond(None)
    assert first is not None
    with pytest.raises(LoginRefused, match=reason):
        login.respond(challenge.replace(b"NONCE", first.rpartition(b"r=")[2]))


@pytest.mark.parametrize("mechanism", HASHES)
def test_the_same_cryptography_runs_for_an_unknown_user_as_for_a_wrong_password(
    monkeypatch: pytest.MonkeyPatch, mechanism: str
) -> None:
    """So a client learns no more from the time of an answer than from the answer."""
    work: list[tuple[str, str, int]] = []
    hmac_digest, new_hash, compare = hmac.digest, hashlib.new, hmac.compare_digest

    def count_hmac(key: bytes, message: bytes, algorithm: str) -> bytes:
        work.append(("hmac", algorithm, len(key)))
        return hmac_digest(key, message, algorithm)

    def count_hash(algorithm: str, data: bytes) -> Any:  # Any: hashlib's own type
        work.append(("hash", algorithm, len(data)))
        return new_hash(algorithm, data)

    def count_comparison(left: bytes, right: bytes) -> bool:
        work.append(("compare", "", len(left) + len(right)))
        return compare(left, right)

    def refuse(user: str) -> int:
        """Counts what the broker computes for a wrong proof; returns the iterations it wants."""
        exchange = ScramExchange(mechanism, Accounts(alice="a-secret"), random.Random(1))
        login = ScramLogin(mechanism, user, "wrong", random.Random(2))
        challenge = exchange.evaluate(present(login.respond(None)))
        proof = present(login.respond(challenge))
        with monkeypatch.context() as patch:
            patch.setattr(hmac, "digest", count_hmac)
            patch.setattr(hashlib, "new", count_hash)
            patch.setattr(hmac, "compare_digest", count_comparison)
            with pytest.raises(InvalidCredentials):
                exchange.evaluate(proof)
        return int(challenge.rpartition(b"i=")[2])

    assert refuse("alice") == MIN_ITERATIONS
    size = hashlib.new(HASHES[mechanism]).digest_size
    for_alice = [("hmac", HASHES[mechanism], size), ("hash", HASHES[mechanism], size)]
    for_alice.append(("compare", "", 2 * size))
    assert work == for_alice
    work.clear()
    assert refuse("nobody") == MIN_ITERATIONS
    assert work == for_alice


def test_an_unknown_user_gets_the_same_salt_each_time() -> None:
    """A salt that changed would tell that the user does not exist."""
    salts = set()
    for seed in range(3):
        exchange = ScramExchange(SHA_256, Accounts(), random.Random(seed))
        challenge = exchange.evaluate(b"n,,n=nobody,r=abc")
        salts.add(challenge.split(b",s=")[1])
    assert len(salts) == 1


def test_no_proof_at_all_is_no_proof() -> None:
    exchange = ScramExchange(SHA_256, Accounts(alice="a"), random.Random(1))
    nonce = exchange.evaluate(b"n,,n=alice,r=abc").split(b",")[0]
    with pytest.raises(InvalidCredentials):
        exchange.evaluate(b"c=biws," + nonce + b",p=")


def test_a_proof_for_another_nonce_is_refused() -> None:
    login = ScramLogin(SHA_256, "alice", "a", random.Random(1))
    first = ScramExchange(SHA_256, Accounts(alice="a"), random.Random(1))
    second = ScramExchange(SHA_256, Accounts(alice="a"), random.Random(2))
    token = present(login.respond(None))
    challenge = first.evaluate(token)
    second.evaluate(token)
    with pytest.raises(InvalidCredentials, match="nonce"):
        second.evaluate(present(login.respond(challenge)))


def test_a_delegation_token_logs_its_owner_in() -> None:
    accounts = Accounts()
    accounts.tokens["id-1"] = ("alice", "the hmac")
    exchange = ScramExchange(SHA_512, accounts, random.Random(1))
    login = ScramLogin(SHA_512, "id-1", "the hmac", random.Random(2))
    login._first_bare += ",tokenauth=true"
    run(login, exchange)
    assert exchange.identity == Identity(name="alice", expires_ms=5, token_authenticated=True)


def test_a_token_is_no_user_and_a_user_is_no_token() -> None:
    accounts = Accounts(alice="a")
    accounts.tokens["id-1"] = ("alice", "h")
    with pytest.raises(InvalidCredentials):
        attempt(accounts, "id-1", "h")
    exchange = ScramExchange(SHA_512, accounts, random.Random(1))
    login = ScramLogin(SHA_512, "alice", "a", random.Random(2))
    login._first_bare += ",tokenauth=true"
    with pytest.raises(InvalidCredentials):
        run(login, exchange)


def test_another_authorization_id_is_refused() -> None:
    exchange = ScramExchange(SHA_256, Accounts(alice="a"), random.Random(1))
    with pytest.raises(AuthenticationFailed, match="authorization id"):
        exchange.evaluate(b"n,a=bob,n=alice,r=abc")


def test_a_broker_that_does_not_know_the_password_is_refused() -> None:
    login = ScramLogin(SHA_256, "alice", "a", random.Random(1))
    exchange = ScramExchange(SHA_256, Accounts(alice="a"), random.Random(1))
    login.respond(exchange.evaluate(present(login.respond(None))))
    with pytest.raises(LoginRefused):
        login.respond(b"v=AAAA")
    with pytest.raises(LoginRefused, match="malformed"):
        ScramLogin(SHA_256, "alice", "a", random.Random(1)).respond(b"r=abc")


@given(st.binary(max_size=60))
def test_nonsense_is_refused_without_repeating_it(token: bytes) -> None:
    exchange = ScramExchange(SHA_256, Accounts(), random.Random(1))
    with pytest.raises(InvalidCredentials) as refused:
        exchange.evaluate(b"p," + token)
    assert str(refused.value) == "the first SCRAM message is malformed"


def test_a_credential_is_stored_as_kafka_stores_it() -> None:
    credential = credential_of(SHA_256, "pencil", salt=RFC_7677["salt"])
    text = encode_credential(credential)
    assert text == (
        "salt=W22ZaJ0SNY7soEsUEjb6gQ==,stored_key=WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=,"
        "server_key=wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=,iterations=4096"
    )
    assert decode_credential(text) == credential


@pytest.mark.parametrize("text", ["", "salt=AAAA", "salt=?,stored_key=,server_key=,iterations=1"])
def test_an_unreadable_credential_is_not_repeated(text: str) -> None:
    with pytest.raises(ValueError) as refused:
        decode_credential(text)
    assert str(refused.value) == "a stored SCRAM credential cannot be read"


def test_the_repr_of_a_credential_hides_it() -> None:
    credential = ScramCredential(salt=b"a", stored_key=b"b", server_key=b"c", iterations=4096)
    assert repr(credential) == "ScramCredential(iterations=4096)"
