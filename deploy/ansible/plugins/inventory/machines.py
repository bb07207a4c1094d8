# Copyright The Holdfast authors
# SPDX-License-Identifier: Apache-2.0

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
name: machines
author: The Holdfast authors
short_description: Machines of a Holdfast cluster as hosts
description:
  - Adds each machine as a host, named by its id, in groups by phase, pool and rack.
  - Asks the cluster through C(holdfast), which must be installed on the controller. Options that are not set come from its environment and context.
  - Its configuration is a YAML file whose name ends in C(holdfast.yml) or C(holdfast.yaml).
extends_documentation_fragment:
  - constructed
  - inventory_cache
options:
  plugin:
    description: Marks this file as configuration of this plugin.
    required: true
    choices: [holdfast_metal.holdfast.machines]
  filter:
    description: Selects machines, in the filter language of the API, for example C(phase = IN_SERVICE AND pool = "gpu"). All of them by default.
    type: str
    default: ""
  addr:
    description: gRPC addresses of the peers, separated by commas.
    type: str
    env:
      - name: HOLDFAST_ADDR
  token:
    description: An access token. A viewer's token is enough.
    type: str
    env:
      - name: HOLDFAST_TOKEN
  context:
    description: A context of the command line.
    type: str
    env:
      - name: HOLDFAST_CONTEXT
  ca:
    description: A file with the CA certificates of the cluster.
    type: path
    env:
      - name: HOLDFAST_CA
  cert:
    description: A file with a client certificate.
    type: path
    env:
      - name: HOLDFAST_CERT
  key:
    description: A file with its key.
    type: path
    env:
      - name: HOLDFAST_KEY
  binary:
    description: Path of the command.
    type: str
    default: holdfast
    env:
      - name: HOLDFAST_BINARY
  timeout:
    description: Time limit of the command, in seconds.
    type: int
    default: 60
"""

EXAMPLES = r"""
# gpu.holdfast.yml: ansible-inventory -i gpu.holdfast.yml --graph
plugin: holdfast_metal.holdfast.machines
addr: peer-1:7400,peer-2:7400,peer-3:7400
ca: /etc/holdfast/ca.pem
filter: pool = "gpu" AND phase = IN_SERVICE
keyed_groups:
  - key: holdfast.labels.env
    prefix: env
compose:
  ansible_user: "'admin'"
"""

from ansible.plugins.inventory import BaseInventoryPlugin, Cacheable, Constructable
from ansible_collections.holdfast_metal.holdfast.plugins.plugin_utils import cli

OPTIONS = ("addr", "token", "context", "ca", "cert", "key", "binary", "timeout")


class InventoryModule(BaseInventoryPlugin, Constructable, Cacheable):
    NAME = "holdfast_metal.holdfast.machines"

    def verify_file(self, path):
        return super(InventoryModule, self).verify_file(path) and path.endswith(("holdfast.yml", "holdfast.yaml"))

    def parse(self, inventory, loader, path, cache=True):
        super(InventoryModule, self).parse(inventory, loader, path, cache)
        self._read_config_data(path)
        self.load_cache_plugin()
        for machine in self.machines(path, cache):
            self.add(machine)

    def machines(self, path, cache):
        """Returns the machines, from the cache if it is enabled and has them, else from the cluster."""
        key = self.get_cache_key(path)
        if cache and self.get_option("cache"):
            try:
                return self._cache[key]
            except KeyError:
                pass
        words = ["machine", "list", "--limit", "0"]
        if self.get_option("filter"):
            words += ["--filter", self.get_option("filter")]
        found = cli.ask({name: self.get_option(name) for name in OPTIONS}, *words).get("machines", [])
        if self.get_option("cache"):
            self._cache[key] = found
        return found

    def add(self, machine):
        host = self.inventory.add_host(machine["machine_id"])
        spec, status = machine.get("spec") or {}, machine.get("status") or {}
        user, unused, port = cli.split_endpoint(spec.get("ssh_endpoint") or "")
        for name, value in (("ansible_host", cli.address_of(machine)), ("ansible_user", user), ("ansible_port", port), ("holdfast", machine)):
            if value:
                self.inventory.set_variable(host, name, value)
        for prefix, value in (("phase", status.get("phase")), ("pool", spec.get("pool")), ("rack", spec.get("rack"))):
            if value:
                group = self.inventory.add_group(self._sanitize_group_name("%s_%s" % (prefix, value.lower())))
                self.inventory.add_child(group, host)
        variables = self.inventory.get_host(host).get_vars()
        strict = self.get_option("strict")
        self._set_composite_vars(self.get_option("compose"), variables, host, strict=strict)
        self._add_host_to_composed_groups(self.get_option("groups"), variables, host, strict=strict)
        self._add_host_to_keyed_groups(self.get_option("keyed_groups"), variables, host, strict=strict)
