// Package stepkind reads the declarations of the kinds of steps: the option step_kind of each
// message in Step.kind (proto/holdfast/v1/kind.proto). No other package knows how a kind is
// declared. It must not decide anything or keep state: the descriptors cache the options.
package stepkind
