"""Which cluster a URL of HDFS means, and where its WebHDFS is (I/O): options, and Hadoop's configuration files.

1. ``hdfs.webhdfs-url`` says where WebHDFS is, with a comma between the NameNodes of a cluster that has several;
   ``webhdfs://host:9870/...`` does too.
2. Else ``core-site.xml`` and ``hdfs-site.xml`` in ``HADOOP_CONF_DIR`` know the addresses of the cluster by its name.
3. Else it is port 9870 of the machine that the URL, or ``hdfs.host``, names.

Of a cluster that the files know, all its names are the same. ``hdfs.authority`` adds others.
"""

from __future__ import annotations

import getpass
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import attrs

from lakemeta.errors import OptionError
from lakemeta.storage.hdfs import HdfsStorage
from lakemeta.storage.webhdfs import Connection, WebHdfs
from lakemeta.typed_text import truth, whole

if TYPE_CHECKING:
    from collections.abc import Mapping

HTTP_PORT: Final = 9870
HTTPS_PORT: Final = 9871
_OPTIONS: Final = frozenset(
    {
        "hdfs.webhdfs-url",
        "hdfs.authority",
        "hdfs.host",
        "hdfs.port",
        "hdfs.user",
        "hdfs.delegation-token",
        "hdfs.kerberos",
        "hdfs.data-proxy",
    }
)
_FILES: Final = ("core-site.xml", "hdfs-site.xml")


@attrs.frozen
class Cluster:
    """What it is called in ``hdfs://`` URLs, and the URLs of its NameNodes' WebHDFS."""

    names: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()


def hdfs_storage(scheme: str, options: Mapping[str, str]) -> HdfsStorage:
    """The storage of the cluster in ``scheme`` (:func:`lakemeta.paths.split_scheme`); OptionError for a bad option."""
    try:
        import requests  # noqa: F401 - fsspec imports it itself; here it is only asked whether it can
    except ImportError:
        raise OptionError("hdfs:// needs requests: pip install 'lakemeta[hdfs]'") from None
    for name in options:
        if name == "hdfs.kerberos_ticket":
            raise OptionError("hdfs.kerberos_ticket is no option here: set KRB5CCNAME to it and hdfs.kerberos=true")
        if name not in _OPTIONS:
            raise OptionError.unknown(name, sorted(_OPTIONS))
    cluster = find_cluster(scheme.removeprefix("hdfs://"), options, configuration(os.environ))
    access = _access(options, os.environ)
    servers = tuple(Connection("webhdfs", {**_address(url), **access}) for url in cluster.urls)
    return HdfsStorage(WebHdfs(servers, _proxy(options)), cluster.names, tuple(map(_written, servers)))


def _written(server: Connection) -> str:
    secure, host, port = (server.options[name] for name in ("use_https", "host", "port"))
    return f"{'swebhdfs' if secure else 'webhdfs'}@{host}:{port}"


def find_cluster(authority: str, options: Mapping[str, str], settings: Mapping[str, str]) -> Cluster:
    """The cluster of a URL's authority, by the rules of this module; of none, it is the one of the options or files."""
    kind, at, http = authority.rpartition("@")
    name = "" if at else authority
    if not name and "hdfs.host" in options:
        port = f":{whole('hdfs.port', options['hdfs.port'], 1, 65535)}" if "hdfs.port" in options else ""
        name = options["hdfs.host"] + port
    declared = tuple(filter(None, options.get("hdfs.authority", "").split(",")))
    given = tuple(filter(None, options.get("hdfs.webhdfs-url", "").split(",")))
    web = (f"{'https' if kind == 'swebhdfs' else 'http'}://{http}",) if at else ()
    wanted = {name, *declared} - {""}
    known = next((c for c in _clusters(settings) if _is_meant(c, wanted, web)), Cluster())
    names = tuple(dict.fromkeys(filter(None, [name, *declared, *known.names])))
    urls = given or web or known.urls
    if not urls and name:
        urls = (f"http://{_host(name)}:{HTTP_PORT}",)
    return Cluster(names, urls)


def _is_meant(cluster: Cluster, names: set[str], web: tuple[str, ...]) -> bool:
    if web:
        return web[0] in cluster.urls
    return not names or not names.isdisjoint(cluster.names)


def _clusters(settings: Mapping[str, str]) -> list[Cluster]:
    """The clusters in configuration files, that of ``fs.defaultFS`` first."""
    default = settings.get("fs.defaultFS", "")
    default = default.removeprefix("hdfs:").lstrip("/").partition("/")[0] if default.startswith("hdfs:") else ""
    kind = "https" if settings.get("dfs.http.policy") == "HTTPS_ONLY" else "http"
    found = []
    for service in filter(None, (part.strip() for part in settings.get("dfs.nameservices", "").split(","))):
        nodes = [part.strip() for part in settings.get(f"dfs.ha.namenodes.{service}", "").split(",") if part.strip()]
        keys = [f".{service}.{node}" for node in nodes] or [f".{service}"]
        found.append(_cluster(settings, kind, [service], keys))
    if not any(default in cluster.names for cluster in found) and default:
        found.append(_cluster(settings, kind, [default], [""]))
    return sorted(found, key=lambda cluster: default not in cluster.names)


def _cluster(settings: Mapping[str, str], kind: str, names: list[str], keys: list[str]) -> Cluster:
    rpc = [settings[f"dfs.namenode.rpc-address{key}"] for key in keys if f"dfs.namenode.rpc-address{key}" in settings]
    web = [settings[key] for key in (f"dfs.namenode.{kind}-address{key}" for key in keys) if key in settings]
    hosts = [_host(address) for address in rpc] or [_host(name) for name in names]
    if not web:
        web = [f"{host}:{HTTPS_PORT if kind == 'https' else HTTP_PORT}" for host in hosts]
    addresses = (_reachable(address, host) for address, host in zip(web, hosts * len(web), strict=False))
    return Cluster(tuple(dict.fromkeys([*names, *rpc])), tuple(f"{kind}://{address}" for address in addresses))


def _reachable(address: str, host: str) -> str:
    """An address to bind to is that of ``host``."""
    return f"{host}:{address.rpartition(':')[2]}" if _host(address) == "0.0.0.0" else address  # noqa: S104


def configuration(environment: Mapping[str, str]) -> dict[str, str]:
    """The properties in the files of ``HADOOP_CONF_DIR``, later files first; none without it."""
    folder = environment.get("HADOOP_CONF_DIR")
    settings: dict[str, str] = {}
    for name in _FILES if folder else ():
        path = Path(folder or "", name)
        if path.exists():
            settings |= _properties(path)
    return settings


def _properties(path: Path) -> dict[str, str]:
    from xml.etree import ElementTree as ET

    try:
        root = ET.fromstring(path.read_bytes())  # noqa: S314 - the user's own configuration
    except (OSError, ET.ParseError) as error:
        raise OptionError(f"{path}, in HADOOP_CONF_DIR, cannot be read: {error}") from None
    found = ((item.findtext("name"), item.findtext("value")) for item in root.iter("property"))
    return {name.strip(): value.strip() for name, value in found if name and value}


def _access(options: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, Any]:
    """Who we are: by a delegation token, by Kerberos, or by name as Hadoop has it without security."""
    token, user = options.get("hdfs.delegation-token"), options.get("hdfs.user")
    kerberos = truth("hdfs.kerberos", options.get("hdfs.kerberos", "false"))
    if sum([token is not None, user is not None, kerberos]) > 1:
        raise OptionError("hdfs.user, hdfs.delegation-token and hdfs.kerberos say who we are; give one of them")
    if token is not None:
        return {"token": token}
    return (
        {"kerberos": True} if kerberos else {"user": user or environment.get("HADOOP_USER_NAME") or getpass.getuser()}
    )


def _address(url: str) -> dict[str, Any]:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # an address in brackets that is none, or no port
        parts, port = urlsplit(""), None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/"):
        raise OptionError(f"the address of WebHDFS is {url!r} but must be like http://namenode:{HTTP_PORT}")
    secure = parts.scheme == "https"
    return {"host": parts.hostname, "port": port or (HTTPS_PORT if secure else HTTP_PORT), "use_https": secure}


def _proxy(options: Mapping[str, str]) -> dict[str, str]:
    text = options.get("hdfs.data-proxy", "{}")
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise OptionError("the storage option hdfs.data-proxy is no JSON object of host:port and host:port")
    return found


def _host(address: str) -> str:
    return address.rpartition(":")[0] or address
