// Package kube brings hosts into Kubernetes clusters and sets their nodes aside, through the API of
// the cluster and kubeadm on the host.
//
// It owns what is true of a node, the bootstrap tokens of joins, and drains. It must not know runs,
// the FSM or where kubeconfigs are kept (Clusters finds them), it retries no effect, and it changes
// no node but the machine's own.
//
// # Whose node it is
//
// A node is the machine's when its provider id says so (holdfast://MACHINE, which a join sets),
// else when its system UUID is the machine's, else when it has the machine's name and nothing says
// otherwise. A node of that name with another UUID, or another machine's provider id, is somebody
// else's: it is never joined over.
//
// # Joins
//
// StartJoin makes a bootstrap token for the attempt, named after it, and has kubeadm run as a
// durable command under the attempt's token. Any number of starts by any number of leaders lead to
// one token and one command. EndJoin revokes the token, whoever made it. A token that nobody
// revokes any more, because the API did not answer, is of no use after TokenTTL, and Kubernetes
// deletes it. The token reaches the host within the command's file, which root alone can read, and
// never a command line, an environment, a log or an error.
package kube
