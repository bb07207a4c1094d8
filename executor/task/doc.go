// Package task has what several leader tasks need: the interfaces to the cluster and to the state,
// commands that are retried until they are applied or refused, and a sleep that a context ends. It
// must not know any task.
package task
