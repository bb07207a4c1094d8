// Package kube joins hosts to Kubernetes clusters and drains their nodes, through the API of the
// cluster and kubeadm on the host.
//
// It owns the state of nodes, the bootstrap tokens of joins, and drains. It must not know runs, the
// FSM or the storage of kubeconfigs (Clusters finds them). It retries no effect, and it changes no
// node but the machine's own.
//
// # Whose node it is
//
// A node is the machine's if its provider id names the machine (holdfast://MACHINE, set by a join).
// Otherwise it is if its system UUID is the machine's. Otherwise it is if it has the machine's name
// and nothing contradicts that. A node of that name with another UUID, or with another machine's
// provider id, is not the machine's: a join never replaces it.
//
// # Joins
//
// StartJoin creates a bootstrap token whose id is derived from the attempt, and runs kubeadm as a
// durable command under the attempt's token. Any number of starts by any number of leaders lead to
// one bootstrap token and one command. EndJoin revokes the token of any leader. If the API did not
// answer then, the token expires after TokenTTL, and Kubernetes deletes it. The token reaches the
// host in the file of the command, which only root can read. It never occurs on a command line, in
// an environment, a log or an error.
package kube
