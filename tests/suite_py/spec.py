# SPDX-License-Identifier: Apache-2.0
"""workload.yaml for these tests: a reader of just the forms our own files use,
and a resolver of shapes, written apart from core/suite on purpose.

No general YAML: block maps of one level, flow maps and lists, `|` literals.
"""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
SUITE = ROOT / "suite" / "jaxbench"
FOLDERS = {path.name.split("_")[0]: path for path in sorted(SUITE.iterdir()) if (path / "workload.yaml").is_file()}

_TOKEN = re.compile(r'\s*([{}\[\],]|"[^"]*"|[^,{}\[\]:"]+(?::(?!\s)[^,{}\[\]"]*)?|:)')


def _scalar(text):
    if text[:1] == '"':
        return text[1:-1]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return {"true": True, "false": False}.get(text, text)


def _flow(text):
    tokens, at = [t.strip() for t in _TOKEN.findall(text)], 0

    def value():
        nonlocal at
        token = tokens[at]
        at += 1
        if token == "[":
            out = []
            while tokens[at] != "]":
                out.append(value())
                at += tokens[at] == ","
            at += 1
            return out
        if token == "{":
            out = {}
            while tokens[at] != "}":
                name = _scalar(tokens[at])
                assert tokens[at + 1] == ":", text
                at += 2
                out[name] = value()
                at += tokens[at] == ","
            at += 1
            return out
        return _scalar(token)

    out = value()
    assert at == len(tokens), text
    return out


def _value(text):
    return _flow(text) if text[:1] in "{[" else _scalar(text)


def read(path):
    """A file of ours as a dict."""
    out, name = {}, None
    lines = [l for l in path.read_text().split("\n") if not l.lstrip().startswith("#")]
    for line in lines:
        if not line.strip():
            continue
        if line[0] != " ":
            name, _, rest = line.partition(":")
            rest = re.sub(r"\s+#.*$", "", rest.strip())
            out[name] = "" if rest == "|" else _value(rest) if rest else None
        elif isinstance(out[name], str):
            out[name] += line.strip() + "\n"
        elif line.lstrip().startswith("- "):
            out[name] = (out[name] or []) + [_value(line.strip()[2:])]
        else:
            key, _, rest = line.strip().partition(":")
            out[name] = dict(out[name] or {}, **{key: _value(rest.strip())})
    return out


def number(expression, symbols):
    """An expression of docs/formats.md over the symbols of a shape."""
    text = str(expression).replace("^", "**")
    return eval(text, {"__builtins__": {}}, symbols)  # our own files


def resolve(spec, shape):
    """A shape as a job carries it (docs/formats.md, "Resolved for a job")."""
    symbols = spec["shapes"][shape]
    dims = lambda row: [int(number(d, symbols)) for d in row["shape"]]
    inputs = []
    for row in spec["inputs"]:
        (kind, numbers), = row["repaired"].items()
        inputs.append({"name": row["name"], "dtype": row["dtype"], "dims": dims(row), "role": row["role"],
                       "repaired": {kind: {k: float(number(v, symbols)) for k, v in numbers.items()}}})
    return {"config": {k: number(v, symbols) for k, v in spec["config"].items()},
            "inputs": inputs,
            "outputs": [{"dtype": row["dtype"], "dims": dims(row)} for row in spec["outputs"]],
            "flops": number(spec["flops"], symbols), "min_bytes": number(spec["min_bytes"], symbols)}


def request(ident, shape="tiny", distribution="own", draw=0, key="test", **more):
    """A request of a reference child (docs/protocol.md)."""
    spec = read(FOLDERS[ident] / "workload.yaml")
    return {"schema": 1, "kind": "trial",
            "workload": {"id": ident, "name": spec["name"], "dir": str(FOLDERS[ident]), "variant": "repaired", "version": "0"},
            "shape": shape, "resolved": resolve(spec, shape), "distribution": distribution, "draw": draw, "key": key,
            "scale": float(spec["scales"].get(distribution, 1)), "groups": ["r_jit", "r_op", "h"], **more}
