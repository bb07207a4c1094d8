// Package edge connects the gRPC services of a peer to the rest of it: it commits their
// commands, ends their streams, and converts their errors to gRPC statuses. No other place
// does that conversion.
//
// It must not know services or resources, and it keeps no state.
package edge
