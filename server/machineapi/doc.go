// Package machineapi is the HTTP API of machine registration (spec 000), which agents in the field
// speak: register, keepalive, list and config. It takes what they send, which is not always what
// the document says, makes gRPC calls of this process of it, and words the answers as they expect
// them.
//
// It owns the wire form and nothing else: who may call is decided by the gate, what a call means by
// the services behind. It must not know the FSM or the cluster.
package machineapi
