package client

import (
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// rule is how often a request may be sent.
type rule int

const (
	// once: must not be repeated if its outcome is unknown.
	once rule = iota
	// again: may be repeated. Two calls in sequence have the same effect and response as
	// one.
	again
	// hedged: may go to another peer while the first still handles it. An overtaken try can
	// be applied at any later time: a stopped process resumes with the data in its sockets.
	// So it must not undo anything that came after it.
	hedged
)

// ruleOf returns the rule of a request, which its method declares (option holdfast.v1.retry).
func ruleOf(method string, req any) rule {
	if isRead(method) {
		return hedged
	}
	declared := retryOf(method)
	m, ok := req.(proto.Message)
	if needs := declared.GetNeeds(); !ok || needs != "" && !has(m.ProtoReflect(), needs) {
		return once
	}
	switch declared.GetRule() {
	case holdfastv1.MethodRetry_HEDGED:
		return hedged
	case holdfastv1.MethodRetry_AGAIN:
		return again
	case holdfastv1.MethodRetry_ONCE:
	}
	return once
}

// has reports whether a field, named by its path, has a value.
func has(m protoreflect.Message, path string) bool {
	name, rest, more := strings.Cut(path, ".")
	f := m.Descriptor().Fields().ByName(protoreflect.Name(name))
	if f == nil || !m.Has(f) {
		return false
	}
	return !more || has(m.Get(f).Message(), rest)
}

// optionsOf returns the options of a method, or nil if it is not in our API.
func optionsOf(method string) *descriptorpb.MethodOptions {
	name := strings.ReplaceAll(strings.TrimPrefix(method, "/"), "/", ".")
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
	if err != nil {
		return nil
	}
	opts, _ := d.Options().(*descriptorpb.MethodOptions)
	return opts
}

// retryOf returns the declaration of how often a request may be sent, or nil.
func retryOf(method string) *holdfastv1.MethodRetry {
	opts := optionsOf(method)
	if opts == nil {
		return nil
	}
	r, _ := proto.GetExtension(opts, holdfastv1.E_Retry).(*holdfastv1.MethodRetry)
	return r
}

// isRead reports whether the proto declares the method NO_SIDE_EFFECTS.
func isRead(method string) bool {
	return optionsOf(method).GetIdempotencyLevel() == descriptorpb.MethodOptions_NO_SIDE_EFFECTS
}

// onlyReads reports whether a request changes nothing. Some reads are not declared NO_SIDE_EFFECTS,
// because any peer could then answer them, and these need the leader.
func onlyReads(method string) bool { return isRead(method) || retryOf(method).GetReads() }

// takesLong reports whether a healthy peer may need longer than a try's timeout. Another peer would
// only start over.
func takesLong(method string) bool { return retryOf(method).GetSlow() }
