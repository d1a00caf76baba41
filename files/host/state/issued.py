"""What a site has issued to the doors of a host, before it makes new keys or a new authority."""

from host.state.readers import names, run, text


def read(root: str) -> dict[str, bool]:
    """Tell whether a door, or the gateway's, has keys, and a certificate of a site's authority."""
    seats = [f"{root}/door/seats/{name}" for name in names(f"{root}/door/seats")]
    folders = [f"{root}/door", *seats, f"{root}/gateway/door"]
    return {
        "keys": any(text(f"{folder}/keys", 1) for folder in folders),
        "certificate": any(_is_of_a_site(f"{folder}/certificate.pem") for folder in folders),
    }


def _is_of_a_site(path: str) -> bool:
    if text(path, 1) is None:
        return False
    return "Sparkwright: " in run("openssl", "x509", "-noout", "-issuer", "-in", path).stdout
