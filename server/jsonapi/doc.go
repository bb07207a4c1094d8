// Package jsonapi serves every method of holdfast.v1 as JSON over HTTP, below /v1/. The routes are
// those of the option google.api.http in the .proto files (docs/http.md).
//
// It owns the translation only: paths and bodies to request messages, responses to JSON, streams to
// server-sent events, errors to problem+json. Calls run in this process through the interceptors of
// gRPC, which check the caller, forward the call and record it. It must not know what a method
// does, except for the rules in resume.go and duplex.go.
package jsonapi
