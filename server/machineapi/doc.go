// Package machineapi is the HTTP API of machine registration (spec 000), which agents in
// the field use: register, keepalive, list and config. It accepts their requests, which do
// not always follow the specification, makes gRPC calls in this process, and responds in
// the form that they expect.
//
// It owns the wire form only. The gate decides which calls are allowed, and the gRPC
// services carry them out. It must not import the FSM or the cluster.
package machineapi
