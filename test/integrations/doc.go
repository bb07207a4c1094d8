// Package integrations runs the commands of the documentation and the requests of other
// tools against a real peer: the quick start, Ansible's plugins, Prometheus's service
// discovery.
//
// It has only these tests. The details of the responses are tested elsewhere.
package integrations
