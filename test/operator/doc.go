// Package operator runs the commands of operators, as processes, against three peers with
// TLS. Each one does its work, no other role may run it, and a restore that is killed
// midway is either complete or not done at all.
//
// It must not inspect peers beyond what an operator can see.
package operator
