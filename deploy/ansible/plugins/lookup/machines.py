# Copyright The Holdfast authors
# SPDX-License-Identifier: Apache-2.0

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
name: machines
author: The Holdfast authors
short_description: Machines as a Holdfast cluster has them
description:
  - Gives machines by their ids, or those that match a filter, as the API has them.
  - Asks the cluster through C(holdfast), which has to be installed where Ansible runs. What is not given here comes from its environment and context.
options:
  _terms:
    description: Ids of machines. One that is not known is an error.
    type: list
    elements: str
  filter:
    description: Gives the machines that match, in the filter language of the API, when there are no ids.
    type: str
    default: ""
  addr:
    description: gRPC addresses of the peers, with commas between them.
    type: str
  token:
    description: An access token. That of a viewer will do.
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
    description: Where the command is.
    type: str
    default: holdfast
    env:
      - name: HOLDFAST_BINARY
  timeout:
    description: How long a command may take, in seconds.
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
  description: The machines, each as C(holdfast machine get -o json) prints it.
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
