// Package operator runs the verbs of those who keep the control plane, as processes, against three
// peers with TLS: each of them does what it says, nobody else may, and a restore that is killed on
// its way has happened or not.
//
// It must not ask peers for more than an operator can see.
package operator
