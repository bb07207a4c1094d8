// Package request checks the form of requests: required fields, lengths, filters, and
// fields that this build does not know. It owns the refusals of a field and of a resource
// that does not exist, in the format of the FSM.
//
// It must not check rules about the state: the FSM does that within one Apply.
package request
