# Copyright The Holdfast authors
# SPDX-License-Identifier: Apache-2.0

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
name: machines
author: The Holdfast authors
short_description: Machines of a Holdfast cluster
description:
  - Returns machines by id or by filter, in the form of the API.
  - Asks the cluster through C(holdfast), which must be installed on the controller. Options that are not set come from its environment and context.
options:
  _terms:
    description: Ids of machines. An unknown id is an error.
    type: list
    elements: str
  filter:
    description: Selects machines without ids, in the filter language of the API.
    type: str
    default: ""
  addr:
    description: gRPC addresses of the peers, separated by commas.
    type: str
  token:
    description: An access token. A viewer's token is enough.
    type: str
  context:
    description: A context of the command line.
    type: str
  ca:
    description: A file with the CA certificates of the cluster.
    type: path
  cert:
    description: A file with a client certificate.
    type: path
  key:
    description: A file with its key.
    type: path
  binary:
    description: Path of the command.
    type: str
    default: holdfast
    env:
      - name: HOLDFAST_BINARY
  timeout:
    description: Time limit of a command, in seconds.
    type: int
    default: 60
"""

EXAMPLES = r"""
- name: Wait for the machine to be in service
  ansible.builtin.debug:
    msg: "{{ lookup('holdfast_metal.holdfast.machines', 'm-1').status.phase }}"
- name: List what is in the rack
  ansible.builtin.debug:
    msg: "{{ query('holdfast_metal.holdfast.machines', filter='rack = r7') | map(attribute='machine_id') }}"
"""

RETURN = r"""
_list:
  description: The machines, each in the form of C(holdfast machine get -o json).
  type: list
  elements: dict
"""

from ansible.errors import AnsibleError
from ansible.plugins.lookup import LookupBase
from ansible_collections.holdfast_metal.holdfast.plugins.plugin_utils import cli


class LookupModule(LookupBase):
    def run(self, terms, variables=None, **kwargs):
        self.set_options(var_options=variables, direct=kwargs)
        options = self.get_options()
        if terms:
            return [cli.ask(options, "machine", "get", term) for term in terms]
        if not options.get("filter"):
            raise AnsibleError("the lookup machines wants ids of machines, or filter=")
        return cli.ask(options, "machine", "list", "--limit", "0", "--filter", options["filter"]).get("machines", [])
