"""Certificates for the tests, made anew for each: an authority, and those that it signs.

Owns: their keys and names. Promises: a server's certificate is for localhost and 127.0.0.1. Must not: outlive a test.
"""

import datetime
import ipaddress
import os
import ssl

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

DAY = datetime.timedelta(days=1)


def now():
    return datetime.datetime.now(datetime.timezone.utc)


class Authority:
    def __init__(self, directory, name="authority"):
        self.directory = str(directory)
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        self.serial = 1
        certificate = self.build(self.name, self.key, now() + 30 * DAY)
        certificate = certificate.add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        self.file = self.write(f"{name}.pem", certificate.sign(self.key, hashes.SHA256()))

    def build(self, subject, key, end):
        self.serial += 1
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(self.name)
        builder = builder.public_key(key.public_key()).serial_number(self.serial)
        return builder.not_valid_before(now() - 2 * DAY).not_valid_after(end)

    def write(self, name, certificate):
        path = os.path.join(self.directory, name)
        with open(path, "wb") as file:
            file.write(certificate.public_bytes(serialization.Encoding.PEM))
        return path

    def issue(self, name, end=None, of_client=False):
        """A certificate and its key, as the paths of two files."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        usage = x509.ExtendedKeyUsageOID.SERVER_AUTH
        if of_client:
            names, usage = [x509.DNSName(name)], x509.ExtendedKeyUsageOID.CLIENT_AUTH
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        certificate = self.build(subject, key, end or now() + 20 * DAY)
        certificate = certificate.add_extension(x509.SubjectAlternativeName(names), False)
        certificate = certificate.add_extension(x509.ExtendedKeyUsage([usage]), False)
        certificate = self.write(f"{name}.pem", certificate.sign(self.key, hashes.SHA256()))
        path = os.path.join(self.directory, f"{name}.key")
        private = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(key.private_bytes(serialization.Encoding.PEM, *private))
        return certificate, path

    def client(self, pair=None, version=ssl.TLSVersion.TLSv1_2):
        """What a client trusts; with a certificate of its own, that too.

        The usual version has no messages behind the handshake: `websockets.sync` reads in a thread while it writes in
        another, and OpenSSL then loses a write in one of some hundred handshakes of TLS 1.3, with any server.
        """
        context = ssl.create_default_context(cafile=self.file)
        context.maximum_version = version
        if pair:
            context.load_cert_chain(*pair)
        return context
