package auth

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// policy returns the access rules of all methods by name, such as
// "holdfast.v1.RunService/StartRun" (shown in docs/permissions.md). The methods of the public API
// declare theirs in the option (holdfast.v1.access). A method without a rule is refused, and a test
// fails for it. Whether a resource is in the caller's pools is checked elsewhere: by the FSM for
// changes, by the handlers for reads.
func policy() map[string]Rule {
	p := map[string]Rule{
		"grpc.health.v1.Health/Check": Health(),
		"grpc.health.v1.Health/List":  Health(),
		"grpc.health.v1.Health/Watch": Health(),

		"grpc.reflection.v1.ServerReflection/ServerReflectionInfo":      {Anyone: true},
		"grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": {Anyone: true},
	}
	protoregistry.GlobalFiles.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		for _, m := range methodsOf(f) {
			if r, ok := ruleOf(m); ok {
				p[string(m.Parent().FullName())+"/"+string(m.Name())] = r
			}
		}
		return true
	})
	return p
}

// methodsOf returns the methods of all services of a file.
func methodsOf(f protoreflect.FileDescriptor) (all []protoreflect.MethodDescriptor) {
	for i := range f.Services().Len() {
		s := f.Services().Get(i)
		for j := range s.Methods().Len() {
			all = append(all, s.Methods().Get(j))
		}
	}
	return all
}

// ruleOf returns the declared rule of a method. Only peers call the internal services.
func ruleOf(m protoreflect.MethodDescriptor) (Rule, bool) {
	if m.ParentFile().Package() == "holdfast.internal.v1" {
		return Rule{Peers: true}, true
	}
	if !proto.HasExtension(m.Options(), holdfastv1.E_Access) {
		return Rule{}, false
	}
	a, _ := proto.GetExtension(m.Options(), holdfastv1.E_Access).(*holdfastv1.MethodAccess)
	r := Rule{
		Least:    a.GetRole(),
		Also:     a.GetAlso(),
		Unscoped: a.GetUnscoped(),
		Anyone:   a.GetAnyone(),
		Public:   a.GetPublic(),
		OverHTTP: a.GetOverHttp(),
		Does:     action(m),
	}
	switch a.GetOwn() {
	case holdfastv1.MethodAccess_OWN_MACHINE:
		r.Own = ownMachine
	case holdfastv1.MethodAccess_OWN_POOL:
		r.Own = ownPool
	case holdfastv1.MethodAccess_OWN_UNSPECIFIED:
	}
	return r, true
}

// ownMachine reports whether a request names the machine of its agent. For the agents of
// a pool, the handlers check that the machine is in the pool.
func ownMachine(id *holdfastv1.Identity, req proto.Message) bool {
	r, ok := req.(interface{ GetMachineId() string })
	return ok && (id.GetRole() != holdfastv1.Role_AGENT || r.GetMachineId() == id.GetMachineId())
}

// ownPool reports whether a request names the pool of its agent.
func ownPool(id *holdfastv1.Identity, req proto.Message) bool {
	var pool string
	switch r := req.(type) {
	case interface{ GetPoolId() string }:
		pool = r.GetPoolId()
	case *holdfastv1.RegisterPoolRequest:
		pool = r.GetPool().GetPoolId()
	default:
		return false
	}
	return pool != "" && InScope(id, pool)
}

// does returns an action that completes "may not".
func (r *Rule) does(what string) string { return cmp.Or(r.Does, "call "+what) }

// callerName returns a caller for a sentence: user "ann" (viewer).
func callerName(id *holdfastv1.Identity) string {
	kind, name, ok := strings.Cut(id.GetPrincipal(), ":")
	if !ok {
		return fmt.Sprintf("%s (role %s)", cmp.Or(kind, "the caller"), roleName(id.GetRole()))
	}
	role := roleName(id.GetRole())
	if role == "none" {
		role = "no role"
	}
	return fmt.Sprintf("%s %q (%s)", kind, name, role)
}

// action returns the action of a method in words, derived from its name: StartRun is "start runs",
// SetMachinePhase "set machine phases". A method of one word acts on the noun of its service:
// ConsoleService/Attach is "attach consoles".
func action(m protoreflect.MethodDescriptor) string {
	words := split(string(m.Name()))
	if len(words) == 1 {
		words = append(words, split(strings.TrimSuffix(string(m.Parent().Name()), "Service"))...)
	}
	last := len(words) - 1
	words[last] = manyOf(words[last])
	return strings.Join(words, " ")
}

// split returns the words of a name in camel case, in lower case.
func split(name string) (words []string) {
	for i, r := range name {
		if i == 0 || unicode.IsUpper(r) {
			words = append(words, "")
		}
		words[len(words)-1] += string(unicode.ToLower(r))
	}
	return words
}

// manyOf returns the plural of a noun. Some have none, and some words are no nouns.
func manyOf(noun string) string {
	switch {
	case noun == "bmc":
		return "BMCs"
	case strings.HasSuffix(noun, "s"), slices.Contains([]string{
		"alive", "autopilot", "clock", "debug", "history", "leadership",
	}, noun):
		return noun
	}
	return noun + "s"
}
