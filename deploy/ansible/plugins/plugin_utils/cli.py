# Copyright The Holdfast authors
# SPDX-License-Identifier: Apache-2.0
"""Calls a cluster through `holdfast`, which handles contexts, certificates and failed peers."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

import json
import os
import subprocess

from ansible.errors import AnsibleError
from ansible.module_utils.common.text.converters import to_native


def ask(options, *words):
    """Returns the output of `holdfast WORDS -o json`. The token is passed in the environment, since other users can see arguments."""
    command = [options.get("binary") or "holdfast"] + list(words) + ["-o", "json"]
    env = environment(options)
    try:
        done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=int(options.get("timeout") or 60), check=False)
    except OSError as e:
        raise AnsibleError("run %s: %s: install holdfast on this host, or say where it is with the option binary" % (command[0], to_native(e)))
    except subprocess.TimeoutExpired as e:
        raise AnsibleError("run %s: no answer within %s s" % (command[0], e.timeout))
    if done.returncode != 0:
        raise AnsibleError("%s: %s" % (" ".join(command[:3]), to_native(done.stderr).strip()))
    try:
        return json.loads(done.stdout)
    except ValueError as e:
        raise AnsibleError("%s: its answer is not JSON: %s" % (" ".join(command[:3]), to_native(e)))


def environment(options):
    """Returns the environment of the command. A context that an option names has priority over the variables of this process, which may be of another cluster."""
    env = dict(os.environ)
    context = options.get("context")
    named = context and context != os.environ.get("HOLDFAST_CONTEXT")
    for option in ("addr", "token", "ca", "cert", "key"):
        name, value = "HOLDFAST_" + option.upper(), options.get(option)
        if named and value in (None, "", os.environ.get(name)):
            env.pop(name, None)
        elif value:
            env[name] = value
    if context:
        env["HOLDFAST_CONTEXT"] = context
    return env


def address_of(machine):
    """Returns the address of a machine's host, or "": that of ssh_endpoint, else the one that its agent or installer reported."""
    spec = machine.get("spec") or {}
    return split_endpoint(spec.get("ssh_endpoint") or "")[1] or (machine.get("agent") or {}).get("private_ip") or (machine.get("node") or {}).get("ip_address") or ""


def split_endpoint(endpoint):
    """Splits an SSH endpoint, [user@]host[:port], into user, host and port number. Missing parts are "", "" and 0."""
    user, at, rest = endpoint.rpartition("@")
    host, colon, port = rest.rpartition(":")
    if not colon or not port.isdigit() or (":" in host and not host.endswith("]")):  # an IPv6 address alone has no port
        host, port = rest, "0"
    return user, host.strip("[]"), int(port)
