// Package node has the commands of nodes: machines as their installer sees them.
//
// It must not decide which state may follow another: the server does.
package node
