// Package integrations runs what users type and what other tools ask, against a real peer: the
// quick start, Ansible's plugins, Prometheus's service discovery.
//
// It owns no more than these tests. What the answers mean in detail is tested where they are made.
package integrations
