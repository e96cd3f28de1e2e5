"""PEM texts as settings of a broker."""


def in_settings(pem: str, trusted: str) -> dict[str, str]:
    """Settings with the key and the certificates of `pem`, and those of `trusted`."""
    start = pem.index("-----BEGIN CERTIFICATE")
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": pem[:start],
        "ssl.keystore.certificate.chain": pem[start:],
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": trusted,
    }
