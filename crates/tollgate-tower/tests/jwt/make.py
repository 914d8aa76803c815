"""Makes the keys and tokens beside it, with other libraries than those under test: PyJWT and cryptography.

    python3 -m venv venv && venv/bin/pip install pyjwt cryptography && venv/bin/python make.py

They are made once and kept; the private keys are thrown away.
"""

import json
import pathlib

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

HERE = pathlib.Path(__file__).parent
CLAIMS = {
    "iss": "https://login.example.org",
    "aud": ["https://api.example.org", "https://other.example.org"],
    "sub": "alice",
    "number": 4711,
    "nbf": 1_700_000_000,
    "exp": 1_700_000_600,
}
SECRET = bytes(range(64))

keys = {
    "rsa": (rsa.generate_private_key(65537, 2048), RSAAlgorithm, ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"]),
    "p256": (ec.generate_private_key(ec.SECP256R1()), ECAlgorithm, ["ES256"]),
    "p384": (ec.generate_private_key(ec.SECP384R1()), ECAlgorithm, ["ES384"]),
    "ed25519": (ed25519.Ed25519PrivateKey.generate(), OKPAlgorithm, ["EdDSA"]),
}
jwks, tokens = [], []
for name, (key, kind, algorithms) in keys.items():
    public = key.public_key()
    pem = public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    (HERE / f"{name}.pem").write_bytes(pem)
    for algorithm in algorithms:
        kid = algorithm.lower()
        jwks.append(kind.to_jwk(public, as_dict=True) | {"kid": kid, "alg": algorithm, "use": "sig"})
        token = jwt.encode(CLAIMS, key, algorithm, headers={"kid": kid})
        tokens.append({"algorithm": algorithm, "pem": f"{name}.pem", "token": token})
for algorithm in ["HS256", "HS384", "HS512"]:
    tokens.append({"algorithm": algorithm, "pem": None, "token": jwt.encode(CLAIMS, SECRET, algorithm)})
(HERE / "keys.json").write_text(json.dumps({"keys": jwks}, indent=2) + "\n")
(HERE / "tokens.json").write_text(json.dumps(tokens, indent=2) + "\n")
