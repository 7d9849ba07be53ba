"""Who is let in: from where, with what, once; who drives; and how much anybody may say."""

import datetime

import pytest

from nodes.telepresence.access import (
    DOUBT,
    SILENCE,
    Door,
    NotAdmitted,
    Occupied,
    Seat,
    check_exposure,
    is_own_name,
    is_own_page,
    read_token,
    tls_context,
)
from nodes.telepresence.page_files import page_files
from nodes.telepresence.protocol import Hello
from nodes.telepresence.quota import FLOOD, OTHER, RATES, WRONG, Bucket, Quota

TOKEN = "a-token-of-22-letters."


def hello(token=TOKEN, nonce="0" * 16):
    return Hello(1, token, nonce, "Ada", "operator", "openxr")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.3.4.5"])
def test_loopback_needs_nothing(host):
    check_exposure(host, "", "", "")


@pytest.mark.parametrize(
    ("host", "given", "said"),
    [
        ("0.0.0.0", ("", "", ""), "token_file and certificate must be given"),
        ("192.168.1.2", ("token", "", ""), "certificate must be given, found none; give it"),
        ("robot.local", ("", "cert", "key"), "token_file must be given"),
        ("::", ("", "", ""), "token_file and certificate"),
        ("127.0.0.1", ("", "cert", ""), "both a certificate and its key, found only 'cert'"),
        ("127.0.0.1", ("", "", "key"), "found only 'key'"),
    ],
)
def test_more_than_loopback_needs_token_and_certificate(host, given, said):
    with pytest.raises(ValueError, match=said):
        check_exposure(host, *given)
    check_exposure(host, "token", "cert", "key")


def test_a_token_is_one_line_that_others_cannot_read(tmp_path):
    path = tmp_path / "token"
    with pytest.raises(ValueError, match="cannot be read"):
        read_token(path)
    path.write_text(f"{TOKEN}\n")
    path.chmod(0o644)
    with pytest.raises(ValueError, match="can be read by others; run chmod 600"):
        read_token(path)
    path.chmod(0o600)
    assert read_token(path) == TOKEN
    for wrong in ("short", "", "x" * 300, "two words that are long enough"):
        path.write_text(wrong)
        with pytest.raises(ValueError, match="expected one line of 22 to 256 characters"):
            read_token(path)
    path.write_bytes(b"\xff" * 30)
    with pytest.raises(ValueError, match="it is no text"):
        read_token(path)


def make_certificate(folder, name="localhost"):
    """A certificate that signs itself, and its key, as PEM files."""
    pytest.importorskip("cryptography", reason="the tier 'security' is not installed: ./refit setup security")
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    begin = datetime.datetime(2020, 1, 1)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(begin)
        .not_valid_after(begin + datetime.timedelta(days=40000))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return folder / "cert.pem", folder / "key.pem"


def test_a_certificate_and_its_key_belong_together(tmp_path):
    certificate, key = make_certificate(tmp_path)
    assert tls_context(certificate, key).minimum_version.name == "TLSv1_2"
    other = tmp_path / "other"
    other.mkdir()
    _, other_key = make_certificate(other)
    for wrong in (other_key, certificate, tmp_path / "none"):
        with pytest.raises(ValueError, match="give a pair that belongs together"):
            tls_context(certificate, wrong)


@pytest.mark.parametrize(
    ("origin", "name", "host", "own"),
    [
        (None, "127.0.0.1:8090", "127.0.0.1", True),
        ("http://localhost:8090", "localhost:8090", "127.0.0.1", True),
        ("http://127.0.0.1:1234", "127.0.0.1:8090", "127.0.0.1", True),
        ("http://[::1]:1234", "127.0.0.1:8090", "127.0.0.1", True),
        ("https://evil.example", "127.0.0.1:8090", "127.0.0.1", False),
        ("http://127.0.0.1.evil.example", "127.0.0.1:8090", "127.0.0.1", False),
        ("null", "127.0.0.1:8090", "127.0.0.1", False),
        ("http://[", "127.0.0.1:8090", "127.0.0.1", False),
        ("https://robot:8090", "robot:8090", "0.0.0.0", True),
        ("https://robot:8091", "robot:8090", "0.0.0.0", False),
        ("https://evil.example", "robot:8090", "0.0.0.0", False),
    ],
)
def test_a_page_of_another_site_is_known(origin, name, host, own):
    assert is_own_page(origin, name, host) is own


def test_a_name_that_was_turned_towards_this_machine_is_known():
    assert is_own_name("127.0.0.1:8090", "127.0.0.1") and is_own_name("localhost", "127.0.0.1")
    assert not is_own_name("evil.example:8090", "127.0.0.1") and not is_own_name("", "127.0.0.1")
    assert is_own_name("robot:8090", "0.0.0.0")


def test_a_wrong_token_and_a_replayed_hello_are_refused():
    door = Door(TOKEN)
    for wrong in ("", TOKEN[:-1], TOKEN + "x", "ä" * 22):
        with pytest.raises(NotAdmitted, match="token") as caught:
            door.admit(hello(wrong))
        assert caught.value.code == "token"
    door.admit(hello())
    with pytest.raises(NotAdmitted, match="has been said before") as caught:
        door.admit(hello())
    assert caught.value.code == "replay"
    door.admit(hello(nonce="1" * 16))


def test_a_wrong_token_uses_no_nonce_up():
    door = Door(TOKEN)
    with pytest.raises(NotAdmitted):
        door.admit(hello("wrong"))
    door.admit(hello())


def test_a_door_forgets_the_oldest_nonces_alone():
    door = Door(None, remembered=2)
    for i in range(3):
        door.admit(hello(token="", nonce=f"{i:016x}"))
    for i in (1, 2):
        with pytest.raises(NotAdmitted):
            door.admit(hello(nonce=f"{i:016x}"))


def test_one_operator_at_a_time_and_a_hand_over():
    seat = Seat()
    assert seat.take("a", "Ada", 0.0) is None and seat.take("a", "Ada", 0.1) is None
    with pytest.raises(Occupied, match="Ada drives the robot; ask for a release, or watch") as caught:
        seat.take("b", "Bob", 0.1)
    assert caught.value.again is None and caught.value.code == "occupied"
    assert not seat.leave("b") and seat.leave("a") and seat.holder is None
    assert seat.take("b", "Bob", 0.2) is None and seat.name == "Bob"


def test_a_silent_operator_loses_the_seat_but_not_before_it_is_certain():
    seat = Seat()
    seat.take("a", "Ada", 10.0)
    seat.hear("a", 11.0)
    seat.hear("b", 99.0)  # who has no seat keeps none
    with pytest.raises(Occupied) as caught:
        seat.take("b", "Bob", 11.0 + 0.5 * (DOUBT + SILENCE))
    assert caught.value.again == pytest.approx(0.5 * (SILENCE - DOUBT))
    seat.hear("a", 13.0)
    with pytest.raises(Occupied) as caught:
        seat.take("b", "Bob", 13.1)
    assert caught.value.again is None
    assert seat.take("b", "Bob", 13.0 + SILENCE) == "a" and seat.holder == "b"
    assert not seat.leave("a")


def test_a_bucket_lets_its_rate_through():
    bucket = Bucket(rate=100.0, size=10.0)
    passed = sum(bucket.take(i / 1000.0) for i in range(10_000))
    assert passed == pytest.approx(1000 + 10, abs=2)
    assert not bucket.take(10.0) and bucket.take(11.0)


def test_samples_at_their_rate_pass_and_a_flood_is_seen():
    quota = Quota()
    assert all(quota.allows("sample", i / 120.0) and quota.allows("any", i / 120.0) for i in range(2400))
    passed = sum(quota.allows("sample", 20.0 + i / 2000.0) for i in range(4000))
    assert passed <= RATES["sample"][0] * 2.0 + RATES["sample"][1] and quota.flooding
    assert quota.dropped == 4000 - passed >= FLOOD


def test_what_piled_up_in_ten_seconds_without_network_is_no_flood():
    quota = Quota()
    assert sum(quota.allows("any", 10.0) for _ in range(1200)) == RATES["any"][1] and not quota.flooding


def test_kinds_do_not_take_each_others_share():
    quota = Quota()
    while quota.allows("button", 0.0):
        pass
    assert quota.allows("sample", 0.0) and quota.allows("take", 0.0) and not quota.flooding
    assert sum(quota.allows("take", 0.0) for _ in range(100)) == OTHER[1] - 1


def test_now_and_then_a_wrong_text_is_no_reason_to_send_somebody_away():
    quota = Quota()
    for i in range(100):
        quota.mistake(2.0 * i)
    assert not quota.senseless and quota.wrong == 100
    for _ in range(WRONG):
        quota.mistake(300.0)
    assert quota.senseless


def test_a_page_is_the_files_that_lie_there_and_no_others(tmp_path):
    assert page_files(tmp_path / "none") == {}
    (tmp_path / "secret.js").write_text("1")
    page = tmp_path / "page"
    (page / "scene").mkdir(parents=True)
    for name in ("index.html", "app.js", "scene/arm.glb", "notes.txt", ".hidden.js"):
        (page / name).write_text(name)
    (page / "link.js").symlink_to(tmp_path / "secret.js")
    (page / "up").symlink_to(tmp_path)
    found = page_files(page)
    assert set(found) == {"/", "/index.html", "/app.js", "/scene/arm.glb"}
    assert found["/scene/arm.glb"].kind == "model/gltf-binary" and found["/"].path.name == "index.html"
